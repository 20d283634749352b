package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInTheBrowser walks through the account pages as a person does, in Chromium. "make pictures"
// saves pictures of every page in e2e/browser/artifacts, at desktop and phone width.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := os.Getenv("OPPORTUNITY_TEST_CHROMIUM")
	require.NotEmpty(t, chromium, "run the tests with scripts/with-browser, as make test does")
	artifacts, err := filepath.Abs("browser/artifacts")
	require.NoError(t, err)
	for _, walk := range []string{"walk.mjs", "plain.mjs", "plan.mjs"} {
		t.Run(walk, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			u := up(t, dir, "OPPORTUNITY_AUTO_APPROVE=false")
			cmd := exec.CommandContext(t.Context(), "node", walk)
			cmd.Dir = "browser"
			cmd.Env = clean(
				"WALK_BASE_URL="+strings.Replace(u.url, "127.0.0.1", "localhost", 1), // passkeys need a name
				"WALK_ARTIFACTS="+artifacts, "WALK_MAIL_DIR="+filepath.Join(dir, "mail"),
				"WALK_CHROMIUM="+chromium, "WALK_OPPORTUNITY="+program(t, "opportunity"),
				"OPPORTUNITY_ADMIN_URL="+u.adminURL, "OPPORTUNITY_DATA_DIR="+dir,
			)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
		})
	}
}
