package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// TestWhatWasServedIsWhatIsKnownOfThen checks that `history show --at` returns what consumers saw
// at that time, even after later events. It also checks that the published checkpoint verifies, and
// that verification fails with another signing key.
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
	text := u.verb(t, "", "history", "show", "good-one")
	require.Contains(t, text, "status         verified")
	require.Contains(t, text, "application-link: closed")
	_, errs, code := u.tryVerb(t, "", "history", "show", "unknown-one")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `unknown listing "unknown-one"`)

	// the public checkpoint
	var saved string
	eventually(t, "the checkpoint covers all events", func() bool {
		saved = string(get(t, u.url, "", "/.well-known/opportunity-history/log/checkpoint").body)
		return strings.Contains(saved, "/opportunity-history\n5\n")
	})
	file := filepath.Join(t.TempDir(), "saved.txt")
	require.NoError(t, os.WriteFile(file, []byte(saved), 0o600))
	u.interrupt(t)
	secret := func(name string) string {
		text, err := os.ReadFile(filepath.Join(u.dir, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	settings := []string{"OPPORTUNITY_DATABASE_URL=sqlite://" + filepath.Join(u.dir, "history.db")}
	right := "OPPORTUNITY_HISTORY_SIGNING_KEY=" + secret("history-signing-key")
	out, errs, code := run(t, append(settings, right), "", program(t, "history"), "verify", "--against", file)
	require.Zero(t, code, errs+out)
	require.Contains(t, out, "everything matches")
	wrong := fmt.Sprintf("OPPORTUNITY_HISTORY_SIGNING_KEY=%064d", 1)
	out, _, code = run(t, append(settings, wrong), "", program(t, "history"), "verify", "--against", file, "--output",
		"json")
	require.Equal(t, 1, code)
	require.Contains(t, out, "no key of this history signed it")
}
