package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// TestInTheBrowser walks through the account pages as a person does, in Chromium. "make pictures"
// saves pictures of every page in e2e/browser/artifacts, at desktop and phone width.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	for _, walk := range []string{"walk.mjs", "plain.mjs", "plan.mjs"} {
		t.Run(walk, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			u := up(t, dir, "OPPORTUNITY_AUTO_APPROVE=false")
			u.walk(t, walk, "WALK_BASE_URL="+u.url, "WALK_MAIL_DIR="+filepath.Join(dir, "mail"))
		})
	}
}

// walk drives Chromium with a script of e2e/browser.
func (u upProcess) walk(t *testing.T, script string, settings ...string) {
	t.Helper()
	chromium := os.Getenv("OPPORTUNITY_TEST_CHROMIUM")
	require.NotEmpty(t, chromium, "run the tests with scripts/with-browser, as make test does")
	artifacts, err := filepath.Abs("browser/artifacts")
	require.NoError(t, err)
	t.Log(command(t, "browser", append(settings, "WALK_ARTIFACTS="+artifacts, "WALK_CHROMIUM="+chromium,
		"WALK_OPPORTUNITY="+program(t, "opportunity"), "WALK_API_URL="+u.url, "WALK_KEY="+u.keys[api.Commercial],
		"OPPORTUNITY_ADMIN_URL="+u.adminURL, "OPPORTUNITY_DATA_DIR="+u.dir), "node", script))
}

var oneTimeURL = regexp.MustCompile(`(?m)^Curation desk: (http://localhost:\d+)(/sign-in/once\?code=\S+)$`)

// desk starts a curation desk that calls the admin listener at admin. It returns the settings of a
// walk for its address and its sign-in link.
func (u upProcess) desk(t *testing.T, admin string) (desk *process, settings []string) {
	t.Helper()
	desk = start(t, []string{"OPPORTUNITY_DATA_DIR=" + u.dir, "OPPORTUNITY_ADMIN_URL=" + admin, "OPPORTUNITY_ACTOR=ann"},
		program(t, "opportunity"), "desk", "--listen", "127.0.0.1:0")
	eventually(t, "the desk prints its address", func() bool {
		if found := oneTimeURL.FindStringSubmatch(desk.out.String()); found != nil {
			settings = []string{"WALK_BASE_URL=" + found[1], "WALK_ONCE=" + found[2]}
		}
		return settings != nil
	})
	return desk, settings
}
