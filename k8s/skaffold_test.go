package k8s_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestSkaffoldConfigurationBuildsEveryImage validates skaffold.yaml against the schema of its
// version, and checks that each configuration and profile with a build makes the image of each
// program.
func TestSkaffoldConfigurationBuildsEveryImage(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/skaffold-v4beta13.json")
	require.NoError(t, err)
	programs, err := filepath.Glob("../services/*/cmd/*")
	require.NoError(t, err)
	want := []string{"opportunity"}
	for _, program := range programs {
		want = append(want, filepath.Base(program))
	}
	slices.Sort(want)
	text, err := os.ReadFile("../skaffold.yaml")
	require.NoError(t, err)
	builds := 0
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var config any
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &config))
		require.Equal(t, "skaffold/v4beta13", config.(map[string]any)["apiVersion"])
		require.NoError(t, schema.Validate(config))

		type pipeline struct {
			Build struct {
				Artifacts []struct {
					Image  string
					Docker struct {
						Dockerfile string
						BuildArgs  map[string]string
					}
				}
			}
		}
		var pipelines struct {
			pipeline
			Profiles []pipeline
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &pipelines))
		for _, p := range append(pipelines.Profiles, pipelines.pipeline) {
			var built []string
			for _, a := range p.Build.Artifacts {
				name := strings.TrimPrefix(a.Image, "opportunity/")
				require.Equal(t, name, a.Docker.BuildArgs["SERVICE"])
				require.FileExists(t, filepath.Join("..", a.Docker.Dockerfile))
				built = append(built, name)
			}
			if slices.Sort(built); len(built) > 0 {
				require.Equal(t, want, built)
				builds++
			}
		}
	}
	require.Equal(t, 2, builds, "the configuration and the profile debug")
}
