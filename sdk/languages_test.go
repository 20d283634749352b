package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLanguages runs the tests and the type checker of each SDK that is not in Go.
func TestLanguages(t *testing.T) {
	modules, err := filepath.Abs("../e2e/openapi/node_modules")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		dir     string
		command []string
	}{
		"typescript": {"typescript", []string{"node", "--test", "test/"}},
		"tsc":        {"typescript", []string{"node", modules + "/typescript/bin/tsc", "--typeRoots", modules + "/@types"}},
		"python":     {"python", []string{"python3", "-W", "error", "-m", "unittest", "discover", "-s", "tests"}},
		"pyright":    {"python", []string{"node", modules + "/pyright/index.js"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
			cmd.Dir = c.dir
			cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1", "PYRIGHT_PYTHON_IGNORE_WARNINGS=1")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\nrun the tests with scripts/with-browser, which installs Node, Python and the type checkers", out)
		})
	}
}
