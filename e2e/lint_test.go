package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLintersReportNothing runs Spectral's spectral:oas rules and Redocly's recommended rules on
// the served interface description, including those that only warn.
func TestLintersReportNothing(t *testing.T) {
	t.Parallel()
	d := sample(t)
	served := string(get(t, d.url, "", "/openapi.yaml").body)
	// Redocly warns about servers on localhost.
	served = strings.ReplaceAll(served, d.url, "https://api.opportunity.example")
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(file, []byte(served), 0o600))

	lint := func(t *testing.T, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "node", append(args, file)...)
		cmd.Dir = "openapi"
		cmd.Env = clean("REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\nrun the tests with scripts/with-browser, which installs the linters", out)
		return string(out)
	}
	t.Run("spectral", func(t *testing.T) {
		out := lint(t, "node_modules/@stoplight/spectral-cli/dist/index.js", "lint", "--fail-severity", "hint", "--ruleset",
			".spectral.yaml")
		require.Contains(t, out, "No results with a severity of 'hint' or higher found!")
	})
	t.Run("redocly", func(t *testing.T) {
		out := lint(t, "node_modules/@redocly/cli/bin/cli.js", "lint", "--extends", "recommended")
		require.Contains(t, out, "Your API description is valid")
		require.NotContains(t, out, "Warning was generated")
		require.NotContains(t, out, "warnings")
	})
}
