package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/storetest"
)

// TestGeneratedClients builds a program with each generator's output for the served description.
// The program must read the live response, and the same response with fields that a later version
// of the API might add.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	d := sample(t)
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(file, get(t, d.url, "", "/openapi.yaml").body, 0o600))
	live := get(t, d.url, d.keys[api.Developer], listPath+"?country=CA&limit=50")
	var body any
	require.NoError(t, json.Unmarshal(live.body, &body))
	tomorrow := serveJSON(t, withMoreFields(body))
	var want strings.Builder
	for _, record := range decode[api.OpportunityList](t, live).Data {
		remote, checked := "unknown", "unknown"
		if record.Facts.Remote != nil {
			remote = fmt.Sprint(*record.Facts.Remote)
		}
		if len(record.Sources) > 0 && record.Sources[0].CheckedAt != nil {
			checked = string(*record.Sources[0].CheckedAt)
		}
		fmt.Fprintln(&want, record.ID, remote, checked)
	}

	settings := append(sdkSettings(d.url, d.keys[api.Developer]), "GOWORK=off", "GOFLAGS=-mod=mod")
	t.Run("oapi-codegen", func(t *testing.T) {
		dir := copyOf(t, "openapi/oapi-codegen")
		require.NoError(t, os.Mkdir(filepath.Join(dir, "client"), 0o750))
		command(t, dir, settings, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o",
			"client/client.go", file)
		command(t, dir, settings, "go", "build", "-ldflags=-s", "-o", "reader", ".")
		for _, server := range []string{d.url, tomorrow} {
			require.Equal(t, want.String(), command(t, dir, settings, "./reader", server))
		}
	})
	t.Run("openapi-typescript", func(t *testing.T) {
		dir := copyOf(t, "openapi/openapi-typescript")
		modules := storetest.Must(filepath.Abs("openapi/node_modules"))(t)
		require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		command(t, dir, settings, "node", "node_modules/openapi-typescript/bin/cli.js", file, "--output", "description.ts")
		command(t, dir, settings, "node", "node_modules/typescript/bin/tsc")
		for _, server := range []string{d.url, tomorrow} {
			require.Equal(t, want.String(), command(t, dir, settings, "node", "out/main.mjs", server))
		}
	})
}

// TestGeneratedProgramsHaveTheTypesOfTheSDKs checks the TypeScript and Python programs that the
// reference and the explorer show, with few and with all parameters.
func TestGeneratedProgramsHaveTheTypesOfTheSDKs(t *testing.T) {
	t.Parallel()
	doc := storetest.Must(apidoc.Published())(t)
	sdk := storetest.Must(filepath.Abs("../sdk"))(t)
	modules := storetest.Must(filepath.Abs("openapi/node_modules"))(t)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, o := range doc.Operations {
		all := apidoc.Call{Operation: o, Values: map[string]string{
			"id": "maple-scribe", "country": "CA", "province": "ON", "checked_after": "2026-11-01", "page": "1", "limit": "5",
			"q": "scribe", "language": "English", "subcategory": "Transcription",
		}}
		for _, p := range o.Parameters {
			if choices := p.Resolved.Choices(); choices != nil {
				all.Values[p.Name] = choices[0]
			}
		}
		for i, c := range []apidoc.Call{o.ExampleCall(), all} {
			programs := storetest.Must(c.Programs())(t)
			require.Equal(t, []string{"js", "python"}, []string{programs[2].Language, programs[3].Language}, o.ID)
			write(fmt.Sprintf("%s%d.mts", o.ID, i), programs[2].Code)
			write(fmt.Sprintf("%s%d.py", o.ID, i), programs[3].Code)
		}
	}
	write("pyrightconfig.json",
		`{"extraPaths": ["`+sdk+`/python"], "pythonVersion": "3.11", "typeCheckingMode": "standard"}`)
	command(t, dir, nil, "node", modules+"/pyright/index.js")

	write("tsconfig.json", text(t, "../sdk/typescript/consumer/tsconfig.json"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o750))
	require.NoError(t, os.Symlink(sdk+"/typescript", filepath.Join(dir, "node_modules/opportunity-data")))
	require.NoError(t, os.Symlink(modules+"/@types", filepath.Join(dir, "node_modules/@types")))
	command(t, dir, nil, "node", modules+"/typescript/bin/tsc", "--project", ".")
}

// withMoreFields returns a copy of a JSON value in which every object has a field that version 1
// does not describe.
func withMoreFields(value any) any {
	switch value := value.(type) {
	case map[string]any:
		more := map[string]any{"addedLater": map[string]any{"deep": []any{1, "two", nil}}}
		for name, v := range value {
			more[name] = withMoreFields(v)
		}
		return more
	case []any:
		var more []any
		for _, v := range value {
			more = append(more, withMoreFields(v))
		}
		return more
	}
	return value
}

func serveJSON(t *testing.T, value any) string {
	t.Helper()
	body := storetest.Must(json.Marshal(value))(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// The official client for MCP answers ten questions with citations. Its dialogue is that on the
// page about agents.
func TestAgentAnswersTenQuestions(t *testing.T) {
	t.Parallel()
	d := sample(t)
	live, _, found := strings.Cut(command(t, "openapi", sdkSettings(d.url, d.keys[api.Developer]), "node", "agent.mjs",
		d.url), "`get_opportunity` `{\"id\":\"no-such-platform\"}`")
	require.True(t, found)
	_, recorded, _ := strings.Cut(text(t, "../docs/consumers/agents.md"), "\n**")
	require.Equal(t, normal(strings.ReplaceAll("**"+recorded, "http://localhost:8080", d.url)), normal(live))
	require.GreaterOrEqual(t, strings.Count(live, "\n> — "), 10, "citations")
}

// TestLintersReportNothing runs Spectral's spectral:oas rules and Redocly's recommended rules on
// the served interface description, including those that only warn.
func TestLintersReportNothing(t *testing.T) {
	t.Parallel()
	d := sample(t)
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	served := string(get(t, d.url, "", "/openapi.yaml").body)
	// Redocly warns about servers on localhost.
	served = strings.ReplaceAll(served, d.url, "https://api.opportunity.example")
	require.NoError(t, os.WriteFile(file, []byte(served), 0o600))
	lint := func(line string) string {
		settings := []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1"}
		return command(t, "openapi", settings, "sh", "-c", "node node_modules/"+line+" "+file+" 2>&1")
	}
	require.Contains(t, lint("@stoplight/spectral-cli/dist/index.js lint --fail-severity hint --ruleset .spectral.yaml"),
		"No results with a severity of 'hint' or higher found!")
	out := lint("@redocly/cli/bin/cli.js lint --extends recommended")
	require.Contains(t, out, "Your API description is valid")
	require.NotRegexp(t, "Warning was generated|warnings", out)
}

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
		built := storetest.Must(goSamples())(t)
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
	sdk := storetest.Must(filepath.Abs("../sdk"))(t)
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
	python := storetest.Must(filepath.Abs("../sdk/python"))(t)
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
				kept, err := strict[struct {
					State   any                        `json:"state"`
					Records map[string]api.Opportunity `json:"records"`
				}]([]byte(text(t, filepath.Join(dir, "copy.json"))))
				require.NoError(t, err)
				require.Equal(t, u.copied(t), kept.Records)
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
	to := storetest.Must(url.Parse(address))(t)
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

func (d deployment) listed(t *testing.T) []api.Opportunity {
	t.Helper()
	return read[api.OpportunityList](t, d.url, d.keys[api.Commercial], listPath+"?limit=100").Data
}

func (d deployment) copied(t *testing.T) map[string]api.Opportunity {
	t.Helper()
	records := map[string]api.Opportunity{}
	for _, record := range d.listed(t) {
		records[record.ID] = record
	}
	return records
}

// withdraw withdraws a record and waits until the API no longer has it.
func (d deployment) withdraw(t *testing.T, id string) {
	t.Helper()
	d.verb(t, "", "listings", "withdraw", id, "--reason", "test")
	eventually(t, id+" is gone", func() bool {
		return get(t, d.url, d.keys[api.Commercial], listPath+"/"+id).StatusCode == http.StatusNotFound
	})
}

func (d deployment) review(t *testing.T, id, facts string) {
	t.Helper()
	before := d.copied(t)[id].Verification.ReviewCount
	_, err := d.operate(t.Context(), "/events/append",
		`{"slug":"`+id+`","checkedAt":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","checkType":"review","outcome":"verified","note":"",`+
			`"sourceUrls":["https://source.example/"],"facts":`+apitest.WholeFacts(facts)+`}`)
	require.NoError(t, err)
	eventually(t, id+" shows its review", func() bool { return d.copied(t)[id].Verification.ReviewCount > before })
}
