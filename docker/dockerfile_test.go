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
	"go.yaml.in/yaml/v3"
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

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestDockerfileHasEveryService exists because a go.mod that is not copied breaks the build of
// every image, which otherwise shows only when images are built.
func TestDockerfileHasEveryService(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	for _, name := range names(t) {
		require.Contains(t, dockerfile, "\nFROM image AS "+name+"\nENTRYPOINT [\"/"+name+"\"]\n")
		module := "services/" + name
		if name == "opportunity" {
			module = "cmd/opportunity"
		}
		needed := []string{module}
		for line := range strings.Lines(read(t, filepath.Join("..", module, "go.mod"))) {
			if _, path, replaced := strings.Cut(line, " => "); replaced {
				needed = append(needed, filepath.Join(module, strings.TrimSpace(path)))
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
	included := regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(read(t, "../.dockerignore"), -1)
	copies := regexp.MustCompile(`(?m)^COPY ([a-z].*) \S+$`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
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

// TestWorkflowsRunPinnedActionsWithFewRights checks that no workflow runs an action by a tag, which
// its owner can move, and that jobs have only the rights that they name.
func TestWorkflowsRunPinnedActionsWithFewRights(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text := read(t, file)
		for _, action := range regexp.MustCompile(`uses: *(\S+)`).FindAllStringSubmatch(text, -1) {
			require.Regexp(t, `^[\w/-]+@[0-9a-f]{40}$`, action[1], file)
		}
		var workflow struct {
			Permissions map[string]string `yaml:"permissions"`
			Jobs        map[string]struct {
				Permissions map[string]string `yaml:"permissions"`
			} `yaml:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &workflow))
		require.NotNil(t, workflow.Permissions, "%s: without permissions, a job has the default ones", file)
		require.Empty(t, workflow.Permissions, file)
		for name, job := range workflow.Jobs {
			require.NotEmpty(t, job.Permissions, "%s: %s", file, name)
		}
	}
}
