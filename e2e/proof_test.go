package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// TestEventIsProvedToAReaderOutside proves an event with a log, a witness and a reader in processes of their own. Then the data directory is
// restored to an earlier copy, in which all services agree: only the witness can tell, and nothing is published beside what it has seen.
func TestEventIsProvedToAReaderOutside(t *testing.T) {
	t.Parallel()
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	address := storetest.FreeAddress(t)
	settings := []string{"OPPORTUNITY_LINK_CHECKS=false", "OPPORTUNITY_HISTORY_LOG_NAME=opportunity.example/log"}
	u := upWith(t, dir, "none", settings...)
	u.verb(t, `{"id":"good-one","company":{"name":"Good","website":"https://good.example/"},"applicationUrl":"https://good.example/a",`+
		`"category":"online","summary":"s","visibility":"published","sources":[{"url":"https://good.example/"}]}`, "listings", "import", "-")
	check := func(note string) string {
		at := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
		return `{"slug":"good-one","sourceUrls":["https://good.example/"],"note":"` + note + `","checkedAt":"` + at + `","checkType":"application-link","outcome":"reachable"}`
	}
	checkpoint := func() string {
		return string(do(t, u.url, call{path: "/.well-known/opportunity-history/log/checkpoint"}).body)
	}
	u.verb(t, check("first"), "events", "append", "-")
	var document struct {
		Log struct{ PublicKeys []string }
	}
	eventually(t, "the checkpoint of the day", func() bool {
		a := do(t, u.url, call{path: "/.well-known/opportunity-history"})
		return a.StatusCode == http.StatusOK && json.Unmarshal(a.body, &document) == nil
	})
	logKey := document.Log.PublicKeys[0]
	require.True(t, strings.HasPrefix(logKey, "opportunity.example/log+"), logKey)
	u.interrupt(t)
	require.Zero(t, u.wait(t))
	require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))

	w := start(t, nil, program(t, "opportunity"), "witness", "--listen", address, "--data-dir", filepath.Join(t.TempDir(), "witness"), "--name", "witness.example", "--log", logKey)
	ready(t, "http://"+address+"/healthz", w)
	witnessKey, _, _ := strings.Cut(w.out.String(), "\n")
	settings = append(settings, "OPPORTUNITY_HISTORY_WITNESSES="+witnessKey+" http://"+address)
	u = upWith(t, dir, "none", settings...)
	u.verb(t, check("second"), "events", "append", "-")
	cosigned := func(events string) func() bool {
		return func() bool {
			text := checkpoint()
			return strings.HasPrefix(text, "opportunity.example/log\n"+events+"\n") && strings.Contains(text, "\n— witness.example ")
		}
	}
	eventually(t, "the second event is cosigned", cosigned("2"))
	key := u.issue(t, api.Commercial).Key
	event := decode[api.EventList](t, do(t, u.url, call{path: "/api/v1/opportunities/good-one/history", key: key})).Data[0]
	proof := do(t, u.url, call{path: "/.well-known/opportunity-history/log/proof/" + event.ID})
	require.Equal(t, http.StatusOK, proof.StatusCode)
	bundle, err := json.Marshal(api.ProvedEvent{Event: event, Proof: string(proof.body)})
	require.NoError(t, err)
	outside := []string{"history", "verify-event", "-", "--key", logKey, "--witness", witnessKey}
	out, errs, code := run(t, nil, string(bundle), program(t, "opportunity"), outside...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "by witness.example")
	_, errs, code = run(t, nil, strings.Replace(string(bundle), "reachable", "closed", 1), program(t, "opportunity"), outside...)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "not proved: the event differs")
	require.Equal(t, u.verb(t, "", "history", "prove", event.ID), string(bundle)+"\n")
	u.interrupt(t)
	require.Zero(t, u.wait(t))

	u = startUp(t, backup, "none", settings...) // it may never be ready: history may notice first
	eventually(t, "history notices that it was set back", func() bool {
		resp, err := try(t.Context(), u.adminURL, call{path: "/readyz"})
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(u.out.String()+u.logged(t), "database set back")
	})
	_, errs, code = u.tryVerb(t, check("another second"), "events", "append", "-")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "set back")
	require.NotContains(t, checkpoint(), "opportunity.example/log\n2\n")
}
