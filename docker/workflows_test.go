package docker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestWorkflowsRunPinnedActionsWithFewRights checks that no workflow runs an action by a tag, which
// its owner can move, and that jobs have only the rights that they name.
func TestWorkflowsRunPinnedActionsWithFewRights(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, action := range regexp.MustCompile(`uses: *(\S+)`).FindAllStringSubmatch(string(text), -1) {
			require.Regexp(t, `^[\w/-]+@[0-9a-f]{40}$`, action[1], file)
		}
		var workflow struct {
			Permissions map[string]string `yaml:"permissions"`
			Jobs        map[string]struct {
				Permissions map[string]string `yaml:"permissions"`
			} `yaml:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal(text, &workflow))
		require.NotNil(t, workflow.Permissions, "%s: without permissions, a job has the default ones", file)
		require.Empty(t, workflow.Permissions, file)
		for name, job := range workflow.Jobs {
			require.NotEmpty(t, job.Permissions, "%s: %s", file, name)
		}
	}
}
