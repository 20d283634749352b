package e2e

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// TestWhatWasServedIsWhatIsKnownOfThen checks that `history show --at` returns what consumers saw
// at that time, even after later events.
func TestWhatWasServedIsWhatIsKnownOfThen(t *testing.T) {
	t.Parallel()
	u := upWith(t, filepath.Join(t.TempDir(), "data"), "none", generous)
	u.verb(t, listing("good-one"), "listings", "import", "-")
	key := u.issue(t, api.Commercial).Key
	type served struct {
		at           time.Time
		verification api.Verification
	}
	var seen []served
	serve := func(events int) {
		t.Helper()
		eventually(t, "the catalog has the event", func() bool {
			a := get(t, u.url, key, listPath+"/good-one")
			if a.StatusCode != http.StatusOK {
				return false
			}
			d := decode[api.OpportunityDetail](t, a)
			if d.Data.Verification.HistoryCount != events {
				return false
			}
			seen = append(seen, served{d.Meta.GeneratedAt, d.Data.Verification})
			return true
		})
	}
	serve(0)
	ago := func(days int) string {
		return time.Now().UTC().Add(-time.Duration(days) * 24 * time.Hour).Truncate(time.Second).Format(time.RFC3339)
	}
	verified := `"checkType":"review","outcome":"verified","facts":` + apitest.WholeFacts(`{"remote":true}`)
	for i, event := range []string{
		`"checkedAt":"` + ago(20) + `",` + verified,
		`"checkedAt":"` + ago(5) + `",` + verified,
		`"checkedAt":"` + ago(3) + `","checkType":"application-link","outcome":"closed"`,
		`"checkedAt":"` + ago(10) + `","checkType":"review","outcome":"needs-review"`, // late
		`"checkedAt":"` + ago(1) + `",` + verified,
	} {
		u.verb(t, `{"slug":"good-one","sourceUrls":["https://good.example/"],"note":"n",`+event+`}`, "events", "append", "-")
		serve(i + 1)
	}
	var states []api.VerificationStatus
	for _, s := range seen {
		at := s.at.Format(time.RFC3339Nano)
		then := verbJSON[api.HistorySnapshot](t, u.deployment, "history", "show", "good-one", "--at", at)
		require.Equal(t, s.verification, then.Verification, at)
		states = append(states, s.verification.Status)
	}
	require.Equal(t, []api.VerificationStatus{"unverified", "stale", "verified", "needs-review", "needs-review",
		"verified"}, states)
}
