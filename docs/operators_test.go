package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// operatorPages returns the Markdown of the pages for operators and developers, by file name.
func operatorPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, folder := range []string{"operators", "runbooks", "decisions"} {
		for _, file := range mustGlob(t, folder+"/*.md") {
			pages[file] = read(t, file)
		}
	}
	return pages
}

// commandSettings are read by the opportunity command, so configuration.md does not list them.
var commandSettings = []string{
	"OPPORTUNITY_ADMIN_URL", "OPPORTUNITY_OPERATOR_TOKEN", "OPPORTUNITY_ACTOR", "OPPORTUNITY_DATA_DIR",
	"OPPORTUNITY_LINK_CHECKS", "OPPORTUNITY_DESK_URL",
}

func TestSettingsInOperatorPagesExist(t *testing.T) {
	reference := read(t, "configuration.md")
	setting := regexp.MustCompile(`\bOPPORTUNITY_[A-Z_0-9]+\b`)
	for file, text := range operatorPages(t) {
		for _, name := range setting.FindAllString(text, -1) {
			known := slices.Contains(commandSettings, name) || strings.Contains(reference, "| `"+name+"` |")
			require.True(t, known, "%s names the unknown setting %s", file, name)
		}
	}
}

// TestLogMessagesInRunbooksExist finds each log message that a runbook greps for, or calls a log
// message, in the Go code.
func TestLogMessagesInRunbooksExist(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"../services", "../pkg"} {
		require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			source, err := os.ReadFile(name)
			code.Write(source)
			return err
		}))
	}
	quoted := regexp.MustCompile("log\\s+message\\s+`([^`]+)`|grep '\"([a-z][a-z ]+)[\"']")
	found := 0
	for file, text := range operatorPages(t) {
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			found++
			message := match[1] + match[2]
			require.True(t, strings.Contains(code.String(), message), "%s quotes a log message that does not exist: %s",
				file, message)
		}
	}
	require.NotZero(t, found)
}
