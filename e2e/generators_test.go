package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
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
		modules, err := filepath.Abs("openapi/node_modules")
		require.NoError(t, err)
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
	doc, err := apidoc.Published()
	require.NoError(t, err)
	sdk, err := filepath.Abs("../sdk")
	require.NoError(t, err)
	modules, err := filepath.Abs("openapi/node_modules")
	require.NoError(t, err)
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
			programs, err := c.Programs()
			require.NoError(t, err)
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

// serveJSON starts a server that responds to every request with value, and returns its URL.
func serveJSON(t *testing.T, value any) string {
	t.Helper()
	body, err := json.Marshal(value)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// copyOf returns a temporary copy of a directory.
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
