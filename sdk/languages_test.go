package sdk_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/sdk"
)

// TestLanguages runs the tests and the type checker of each SDK that is not in Go.
func TestLanguages(t *testing.T) {
	for name, command := range map[string][]string{
		"typescript": {"node", "--test", "test/"},
		"tsc":        {"node", modules(t) + "/typescript/bin/tsc", "--typeRoots", modules(t) + "/@types"},
		"python":     {"python3", "-W", "error", "-m", "unittest", "discover", "-s", "tests"},
		"pyright":    {"node", modules(t) + "/pyright/index.js"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := "python"
			if name == "typescript" || name == "tsc" {
				dir = "typescript"
			}
			run(t, dir, []string{"PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"}, command[0], command[1:]...)
		})
	}
}

// TestTarballIsCheckedByItsUsers installs the tarball into a project of a consumer, as strict as
// the compiler allows, and checks a program there: what is right must compile, and what is wrong
// must not. Then it runs the checkers of packages.
func TestTarballIsCheckedByItsUsers(t *testing.T) {
	t.Parallel()
	dir := consumer(t, "typescript")
	tarball := filepath.Join(dir, sdk.Tarball)
	archives, err := sdk.Archives()
	require.NoError(t, err)
	write(t, tarball, string(archives[sdk.Tarball]))
	untar(t, archives[sdk.Tarball], filepath.Join(dir, "node_modules"), "opportunity-data")
	require.NoError(t, os.Symlink(filepath.Join(modules(t), "@types"), filepath.Join(dir, "node_modules/@types")))
	samples, err := filepath.Glob("samples/*/main.mjs")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, file := range samples { // the documentation calls them TypeScript
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		write(t, filepath.Join(dir, filepath.Base(filepath.Dir(file))+".mts"), string(code))
	}
	for name, args := range map[string][]string{
		"tsc":              {"typescript/bin/tsc", "--project", "."},
		"publint":          {"publint/src/cli.js", "run", "--strict", tarball},
		"arethetypeswrong": {"@arethetypeswrong/cli/dist/index.js", tarball, "--ignore-rules", "cjs-resolves-to-esm"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, dir, nil, "node", append([]string{filepath.Join(modules(t), args[0])}, args[1:]...)...)
		})
	}
}

// TestWheelIsCheckedByItsUsers is the same for Python. The package is in an environment of its own,
// because checkers trust the types of installed packages in a different way.
func TestWheelIsCheckedByItsUsers(t *testing.T) {
	t.Parallel()
	dir := consumer(t, "python")
	run(t, dir, nil, "python3", "-m", "venv", "--without-pip", "env")
	installed, err := filepath.Glob(filepath.Join(dir, "env/lib/python3*/site-packages"))
	require.NoError(t, err)
	require.Len(t, installed, 1)
	archives, err := sdk.Archives()
	require.NoError(t, err)
	wheel, err := zip.NewReader(bytes.NewReader(archives[sdk.Wheel]), int64(len(archives[sdk.Wheel])))
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(installed[0], wheel))
	samples, err := filepath.Glob("samples/*/main.py")
	require.NoError(t, err)
	for _, file := range samples {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		write(t, filepath.Join(dir, filepath.Base(filepath.Dir(file))+".py"), string(code))
	}
	for name, command := range map[string][]string{
		"pyright": {"node", modules(t) + "/pyright/index.js", "--pythonpath", "env/bin/python"},
		"mypy": {
			"mypy", "--strict", "--warn-unreachable", "--python-executable", "env/bin/python", "--cache-dir",
			os.DevNull,
			"--enable-incomplete-feature=Unpack", "main.py", // mypy 1.0 of Debian needs the last
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, dir, nil, command[0], command[1:]...)
		})
	}
}

// modules returns the folder of the npm packages that the tests use. scripts/with-browser installs
// them.
func modules(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../e2e/openapi/node_modules")
	require.NoError(t, err)
	require.DirExists(t, dir, "run the tests with scripts/with-browser, which installs Node, Python and the type checkers")
	return dir
}

// consumer returns a copy of the project of a consumer in a language.
func consumer(t *testing.T, language string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(language+"/consumer")))
	return dir
}

// untar unpacks an npm tarball, whose files are in the folder package, into the folder name below
// dir.
func untar(t *testing.T, tarball []byte, dir, name string) {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(tarball))
	require.NoError(t, err)
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		file := filepath.Join(dir, name, strings.TrimPrefix(header.Name, "package/"))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		write(t, file, string(content))
	}
}
