package docker_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
// includes what the build copies by name.
func TestContextHasEveryCopiedFile(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	ignored, err := os.ReadFile("../.dockerignore")
	require.NoError(t, err)
	included := regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(string(ignored), -1)
	copies := regexp.MustCompile(`(?m)^COPY ([a-z].*) \S+$`).FindAllStringSubmatch(string(dockerfile), -1)
	require.NotEmpty(t, copies)
	for _, line := range copies {
		for _, source := range strings.Fields(line[1]) {
			_, err := os.Stat(filepath.Join("..", source))
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(included, func(pattern []string) bool {
				matched, err := path.Match(pattern[1], source)
				return err == nil && matched || strings.HasPrefix(source, pattern[1]+"/")
			}), "%s is not in the context", source)
		}
	}
}
