package sdk_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/sdk"
)

// distribution serves the archives as the gateway does, and returns the address of /sdk.
func distribution(t *testing.T) string {
	t.Helper()
	archives, err := sdk.Archives()
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := archives[strings.TrimPrefix(r.URL.Path, "/sdk/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/sdk"
}

// run runs a command in dir with more environment, and returns its output. The command must
// succeed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", name, args, out)
	return string(out)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

func TestGoModuleInstallsThroughTheProxy(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/consumer\n\ngo 1.25.0\n")
	write(t, filepath.Join(dir, "main.go"), `package main

import (
	"fmt"

	"opportunity.internal/sdk/go/opportunity"
)

func main() { fmt.Print(opportunity.Version) }
`)
	env := proxied(t)
	run(t, dir, env, "go", "get", sdk.Module+"@latest")
	require.Equal(t, sdk.Version, run(t, dir, env, "go", "run", "."))
}

// TestCommandInstallsThroughTheProxy resolves and downloads the modules that go install builds. The
// other tests build the command.
func TestCommandInstallsThroughTheProxy(t *testing.T) {
	dir := t.TempDir()
	out := run(t, dir, proxied(t), "go", "install", "-n", sdk.Command+"/opportunity-data@latest")
	require.Contains(t, out, "packagefile "+sdk.Module+"/opportunity=")
	require.Contains(t, out, "opportunity-data")
}

// proxied returns the environment of a consumer who gets the SDK from a distribution, and other
// modules from the cache of this machine.
func proxied(t *testing.T) []string {
	t.Helper()
	return []string{
		"GOPROXY=" + distribution(t) + "/go,file://" + modcache(t) + "/cache/download",
		"GONOSUMDB=opportunity.internal/sdk/*", "GONOPROXY=none",
		"GOSUMDB=off", "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir(), "GOTOOLCHAIN=local",
	}
}

func modcache(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
}

func TestTarballInstalls(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "package.json"), `{"type": "module"}`)
	run(t, dir, []string{"npm_config_cache=" + t.TempDir()}, "npm", "install", "--silent", "--no-audit", "--no-fund",
		distribution(t)+"/"+sdk.Tarball)
	write(t, filepath.Join(dir, "main.js"),
		"import { VERSION } from 'opportunity-data';\nprocess.stdout.write(VERSION);\n")
	require.Equal(t, sdk.Version, run(t, dir, nil, "node", "main.js"))
}

// TestWheelInstalls uses pip if this machine has it. Otherwise it imports the package from the
// wheel, which is a zip file.
func TestWheelInstalls(t *testing.T) {
	dir := t.TempDir()
	env := []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
	if exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() == nil {
		run(t, dir, nil, "python3", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check",
			"--root-user-action=ignore",
			"--no-cache-dir", "--target", dir, distribution(t)+"/"+sdk.Wheel)
	} else {
		archives, err := sdk.Archives()
		require.NoError(t, err)
		write(t, filepath.Join(dir, sdk.Wheel), string(archives[sdk.Wheel]))
		env[0] = "PYTHONPATH=" + filepath.Join(dir, sdk.Wheel)
	}
	require.Equal(t, sdk.Version, run(t, dir, env, "python3", "-c",
		"import opportunity_data as o; print(o.__version__, end='')"))
}

func TestSourceDistributionIsThatOfTheWheel(t *testing.T) {
	archives, err := sdk.Archives()
	require.NoError(t, err)
	dir := t.TempDir()
	untar(t, archives[sdk.Source], dir, ".")
	folder := filepath.Join(dir, "opportunity_data-"+sdk.Version)
	env := []string{"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1"}
	require.Equal(t, sdk.Version, run(t, dir, env, "python3", "-c",
		"import opportunity_data as o; print(o.__version__, end='')"))
	for _, file := range []string{"pyproject.toml", "README.md", "LICENSE"} { // what a build reads
		require.FileExists(t, filepath.Join(folder, file))
	}
	source, err := os.ReadFile(filepath.Join(folder, "PKG-INFO"))
	require.NoError(t, err)
	wheel := archives[sdk.Wheel]
	reader, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	require.NoError(t, err)
	built, err := fs.ReadFile(reader, "opportunity_data-"+sdk.Version+".dist-info/METADATA")
	require.NoError(t, err)
	require.Equal(t, string(built), string(source))
}

func TestArchivesAreReproducible(t *testing.T) {
	first, err := sdk.Archives()
	require.NoError(t, err)
	second, err := sdk.Archives()
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// TestVersionsAgree checks that every file that states the version states the same one.
func TestVersionsAgree(t *testing.T) {
	for file, want := range map[string]string{
		"go/opportunity/client.go":           `const Version = "` + sdk.Version + `"`,
		"typescript/package.json":            `"version": "` + sdk.Version + `"`,
		"typescript/src/client.js":           `VERSION = '` + sdk.Version + `'`,
		"typescript/README.md":               sdk.Tarball,
		"python/pyproject.toml":              `version = "` + sdk.Version + `"`,
		"python/opportunity_data/_client.py": `VERSION = "` + sdk.Version + `"`,
		"python/README.md":                   sdk.Wheel,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), want, file)
	}
}

func TestArchivesHaveTheLicenseAndNoTests(t *testing.T) {
	root, err := os.ReadFile("../LICENSE")
	require.NoError(t, err)
	archives, err := sdk.Archives()
	require.NoError(t, err)
	for _, module := range []string{sdk.Module, sdk.Command} {
		archive := archives["go/"+module+"/@v/v"+sdk.Version+".zip"]
		reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		require.NoError(t, err)
		for _, f := range reader.File {
			require.NotContains(t, f.Name, "_test.go")
		}
		license, err := fs.ReadFile(reader, module+"@v"+sdk.Version+"/LICENSE")
		require.NoError(t, err)
		require.Equal(t, string(root), string(license))
	}
}
