package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
)

// goSamples builds the Go samples and the command opportunity-data once and returns their
// directory.
var goSamples = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "samples")
	return dir, goBuild("../sdk", dir, "./samples/...", "./command/opportunity-data")
})

// runSample runs sdk/samples/<name> in one language ("go", "js" or "python") in dir, and returns
// its output. The program must succeed.
func runSample(t *testing.T, dir, name, language, address, key string) string {
	t.Helper()
	if language == "go" {
		built, err := goSamples()
		require.NoError(t, err)
		return runCommand(t, dir, address, key, filepath.Join(built, name))
	}
	code := text(t, filepath.Join("../sdk/samples", name, "main."+extensions[language]))
	return runProgram(t, dir, language, code, address, key)
}

// extensions are the names of program files by language.
var extensions = map[string]string{"go": "go", "js": "mjs", "python": "py"}

// runProgram runs a program that uses an SDK in dir, and returns its output. The program must
// succeed.
func runProgram(t *testing.T, dir, language, code, address, key string) string {
	t.Helper()
	sdk, err := filepath.Abs("../sdk")
	require.NoError(t, err)
	file := filepath.Join(dir, "main."+extensions[language])
	require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	switch language {
	case "go":
		require.NoError(t, goBuild(sdk, dir, file))
		return runCommand(t, dir, address, key, filepath.Join(dir, "main"))
	case "js": // node finds packages beside the file
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules"), 0o750))
		link := filepath.Join(dir, "node_modules", "opportunity-data")
		if _, err := os.Lstat(link); err != nil {
			require.NoError(t, os.Symlink(filepath.Join(sdk, "typescript"), link))
		}
		return runCommand(t, dir, address, key, "node", file)
	}
	return runCommand(t, dir, address, key, "python3", file)
}

// runCommand runs a command in dir with the settings of the SDKs, and returns its output. The
// command must succeed.
func runCommand(t *testing.T, dir, address, key string, program ...string) string {
	t.Helper()
	python, err := filepath.Abs("../sdk/python")
	require.NoError(t, err)
	out := command(t, dir, append(sdkSettings(address, key), "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1"), program...)
	require.NotContains(t, out, key, "the key was printed")
	return out
}

func sdkSettings(address, key string) []string {
	return []string{"OPPORTUNITY_URL=" + address, "OPPORTUNITY_KEY=" + key}
}

// TestCopiesEqualTheAPI keeps a copy with each SDK while records change and vanish between the
// pages of a walk, and then by the changes.
func TestCopiesEqualTheAPI(t *testing.T) {
	t.Parallel()
	u := up(t, filepath.Join(t.TempDir(), "data"), "OPPORTUNITY_LINK_CHECKS=false",
		"OPPORTUNITY_TIERS=free=9/90/10,developer=90/900/3,commercial=6000/9000/100")
	for i, language := range []string{"go", "js", "python"} {
		t.Run(language, func(t *testing.T) {
			dir, key := t.TempDir(), u.issue(t, api.Developer).Key
			// The last ones of the list, so that no earlier language touched them: records that are
			// reviewed move to the front.
			all := u.listed(t)
			require.Greater(t, len(all), 9)
			vanishing, changing, last := all[len(all)-1].ID, all[len(all)-2].ID, all[len(all)-3].ID
			proxy, requests := duringWalk(t, u.url, func() {
				u.withdraw(t, vanishing)
				u.review(t, changing, fmt.Sprintf(`{"remote":false,"requirements":["first %d"]}`, i))
			})
			update := func(prints string) {
				t.Helper()
				require.Contains(t, runSample(t, dir, "keep-a-copy", language, proxy, key), prints)
				require.Equal(t, u.copied(t), copyIn(t, dir))
			}
			update("all: true")

			u.awaitChanges(t, func() {
				u.verb(t, "", "listings", "publish", vanishing)
				u.review(t, changing, fmt.Sprintf(`{"remote":true,"requirements":["second %d"]}`, i))
				u.withdraw(t, all[0].ID)
			}, vanishing, changing, all[0].ID)
			update("all: false")
			before := requests.Load()
			u.awaitChanges(t, func() { u.withdraw(t, last) }, last)
			update("all: false, stored: 0, removed: 1\n")
			require.Equal(t, before+1, requests.Load(), "a withdrawal needs one request")
		})
	}
}

// awaitChanges waits until the changes that change makes to records with these ids are listed.
func (d deployment) awaitChanges(t *testing.T, change func(), ids ...string) {
	t.Helper()
	before := d.changes(t)
	change()
	eventually(t, "the changes are listed", func() bool {
		after := d.changes(t)
		return !slices.ContainsFunc(ids, func(id string) bool { return after[id].Cursor == "" || after[id] == before[id] })
	})
}

// changes returns the latest listed change of each record.
func (d deployment) changes(t *testing.T) map[string]api.RecordChange {
	t.Helper()
	all := map[string]api.RecordChange{}
	list := read[api.ChangeList](t, d.url, d.keys[api.Commercial], changesPath+"?limit=100")
	require.False(t, list.Pagination.HasMore)
	for _, c := range list.Data {
		all[c.ID] = c
	}
	return all
}

// duringWalk returns the address of a proxy that calls change once, after it has forwarded the
// first page, and the number of its requests.
func duringWalk(t *testing.T, address string, change func()) (proxy string, requests *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	var once sync.Once
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Query().Has("page") {
			once.Do(change)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// listed returns the records of the API in its order.
func (d deployment) listed(t *testing.T) []api.Opportunity {
	t.Helper()
	return read[api.OpportunityList](t, d.url, d.keys[api.Commercial], listPath+"?limit=100").Data
}

// copied returns the records of the API by id.
func (d deployment) copied(t *testing.T) map[string]api.Opportunity {
	t.Helper()
	records := map[string]api.Opportunity{}
	for _, record := range d.listed(t) {
		records[record.ID] = record
	}
	return records
}

// copyIn returns the records of the copy in dir.
func copyIn(t *testing.T, dir string) map[string]api.Opportunity {
	t.Helper()
	copied, err := strict[struct {
		State   any                        `json:"state"`
		Records map[string]api.Opportunity `json:"records"`
	}]([]byte(text(t, filepath.Join(dir, "copy.json"))))
	require.NoError(t, err)
	return copied.Records
}

// withdraw withdraws a record and waits until the API no longer has it.
func (d deployment) withdraw(t *testing.T, id string) {
	t.Helper()
	d.verb(t, "", "listings", "withdraw", id, "--reason", "test")
	eventually(t, id+" is gone", func() bool {
		return get(t, d.url, d.keys[api.Commercial], listPath+"/"+id).StatusCode == http.StatusNotFound
	})
}

// review records a review with facts and waits until the API has it.
func (d deployment) review(t *testing.T, id, facts string) {
	t.Helper()
	before := d.copied(t)[id].Verification.ReviewCount
	_, err := d.operate(t.Context(), "/events/append",
		`{"slug":"`+id+`","checkedAt":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","checkType":"review","outcome":"verified","note":"",`+
			`"sourceUrls":["https://source.example/"],"facts":`+apitest.WholeFacts(facts)+`}`)
	require.NoError(t, err)
	eventually(t, id+" shows its review", func() bool { return d.copied(t)[id].Verification.ReviewCount > before })
}
