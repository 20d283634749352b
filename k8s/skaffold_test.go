package k8s_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// pipeline is the part of a skaffold configuration or profile that the tests check.
type pipeline struct {
	Name  string
	Build struct {
		Artifacts []struct {
			Image  string
			Docker struct {
				Dockerfile string
				BuildArgs  map[string]string
			}
		}
	}
	Manifests struct{ Kustomize struct{ Paths []string } }
	Deploy    struct {
		Helm struct {
			Releases []struct {
				ChartPath         string
				ValuesFiles       []string
				SetValueTemplates map[string]string
			}
		}
	}
	Patches  []any
	Profiles []pipeline
}

// TestSkaffoldConfiguration validates skaffold.yaml against the schema of its version.
func TestSkaffoldConfiguration(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/skaffold-v4beta13.json")
	require.NoError(t, err)
	text, err := os.ReadFile("../skaffold.yaml")
	require.NoError(t, err)
	docs := strings.Split(string(text), "\n---\n")
	require.Len(t, docs, 2)
	for _, doc := range docs {
		var config any
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &config))
		require.Equal(t, "skaffold/v4beta13", config.(map[string]any)["apiVersion"])
		require.NoError(t, schema.Validate(config))
		config.(map[string]any)["bulid"] = map[string]any{}
		require.Error(t, schema.Validate(config), "the schema must reject unknown fields")
	}
}

var templated = regexp.MustCompile(`^{{or \.IMAGE_FULLY_QUALIFIED_opportunity_(\w+) ""}}$`)

// TestSkaffoldBuildsAndInstallsEveryImage checks that each configuration and profile builds every
// image and passes it to the chart.
func TestSkaffoldBuildsAndInstallsEveryImage(t *testing.T) {
	mains, err := filepath.Glob("../services/*/internal")
	require.NoError(t, err)
	want := []string{"opportunity"}
	for _, main := range mains {
		want = append(want, filepath.Base(filepath.Dir(main)))
	}
	slices.Sort(want)
	require.GreaterOrEqual(t, len(want), 5)
	there := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			_, err := os.Stat(filepath.Join("..", path))
			require.NoError(t, err)
		}
	}
	text, err := os.ReadFile("../skaffold.yaml")
	require.NoError(t, err)
	releases := 0
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var config pipeline
		require.NoError(t, yaml.Unmarshal([]byte(doc), &config))
		there(config.Manifests.Kustomize.Paths...)
		for _, p := range append(config.Profiles, config) {
			require.Empty(t, p.Patches, "a patch by index breaks when an artifact is added")
			built := []string{}
			for _, a := range p.Build.Artifacts {
				name := strings.TrimPrefix(a.Image, "opportunity/")
				require.Equal(t, name, a.Docker.BuildArgs["SERVICE"])
				there(a.Docker.Dockerfile)
				built = append(built, name)
			}
			if slices.Sort(built); len(built) > 0 {
				require.Equal(t, want, built, p.Name)
			}
			for _, r := range p.Deploy.Helm.Releases {
				there(append(r.ValuesFiles, r.ChartPath)...)
				given := []string{}
				for _, image := range slices.Collect(maps.Values(r.SetValueTemplates)) {
					require.Regexp(t, templated, image)
					given = append(given, templated.FindStringSubmatch(image)[1])
				}
				slices.Sort(given)
				require.Equal(t, want, given, p.Name)
				releases++
			}
		}
	}
	require.Equal(t, 3, releases)
}
