package docker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names returns the names of all images: one for each service, and that of the command.
func names(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob("../services/*/cmd/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mains), 4)
	all := []string{"opportunity"}
	for _, main := range mains {
		all = append(all, filepath.Base(main))
	}
	return all
}

// TestDockerfileHasEveryService exists because a go.mod that is not copied breaks the build of
// every image, which otherwise shows only when images are built.
func TestDockerfileHasEveryService(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	dockerfile := string(text)
	for _, name := range names(t) {
		require.Contains(t, dockerfile, "\nFROM image AS "+name+"\nENTRYPOINT [\"/"+name+"\"]\n")
		module := "services/" + name
		if name == "opportunity" {
			module = "cmd/opportunity"
		}
		mod, err := os.ReadFile(filepath.Join("..", module, "go.mod"))
		require.NoError(t, err)
		needed := []string{module}
		for _, line := range strings.Split(string(mod), "\n") {
			if _, path, replaced := strings.Cut(line, " => "); replaced {
				needed = append(needed, filepath.Join(module, path))
			}
		}
		for _, path := range needed {
			files := path + "/go.mod "
			if _, err := os.Stat(filepath.Join("..", path, "go.sum")); err == nil { // none without dependencies
				files += path + "/go.sum "
			}
			require.Contains(t, dockerfile, "\nCOPY "+files+path+"/\n")
		}
	}
	require.Contains(t, dockerfile, "-buildid= $STAMP", "the version of the command")
	require.NotContains(t, dockerfile, "# syntax=", "the build must not need a registry for its syntax")
}

// TestContextHasEveryCopiedFile checks that .dockerignore, which excludes everything first,
// includes what the build copies into the image.
func TestContextHasEveryCopiedFile(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	ignored, err := os.ReadFile("../.dockerignore")
	require.NoError(t, err)
	copied := regexp.MustCompile(`(?m)^ +cp (\w\S*) /image/`).FindAllSubmatch(dockerfile, -1)
	require.NotEmpty(t, copied)
	for _, file := range copied {
		require.Contains(t, string(ignored), "\n!"+string(file[1])+"\n")
		require.FileExists(t, filepath.Join("..", string(file[1])))
	}
}
