package charts_test

import (
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// pipeline is a part of skaffold.yaml.
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
	Deploy struct {
		Helm struct {
			Releases []struct {
				ChartPath         string
				ValuesFiles       []string
				SetValueTemplates map[string]string
			}
		}
	}
}

// TestSkaffold validates skaffold.yaml against the schema of its version, and checks that each
// configuration and profile that builds makes the image of each program. It renders the chart with
// what each passes to helm: as `skaffold render --digest-source=none` does, where no image is
// built, and as after a build.
func TestSkaffold(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/skaffold-v4beta13.json")
	require.NoError(t, err)
	programs, built := append([]string{"opportunity"}, services...), map[string]string{}
	for _, name := range programs {
		built["IMAGE_FULLY_QUALIFIED_opportunity_"+name] = "opportunity/" + name + ":built"
	}
	builds, releases := 0, 0
	for doc := range strings.SplitSeq(read(t, "../skaffold.yaml"), "\n---\n") {
		var all any
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &all))
		require.Equal(t, "skaffold/v4beta13", all.(map[string]any)["apiVersion"])
		require.NoError(t, schema.Validate(all))
		var config struct {
			pipeline
			Profiles []pipeline
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &config))
		for _, p := range append(config.Profiles, config.pipeline) {
			var images []string
			for _, a := range p.Build.Artifacts {
				require.FileExists(t, filepath.Join("..", a.Docker.Dockerfile))
				require.Equal(t, a.Image, "opportunity/"+a.Docker.BuildArgs["SERVICE"])
				images = append(images, a.Docker.BuildArgs["SERVICE"])
			}
			if len(images) > 0 {
				require.ElementsMatch(t, programs, images)
				builds++
			}
			for _, release := range p.Deploy.Helm.Releases {
				require.Equal(t, "charts/"+chartDir, release.ChartPath)
				for _, images := range []map[string]string{{}, built} {
					given := values{}
					for _, file := range release.ValuesFiles {
						more, err := chartutil.ReadValuesFile(filepath.Join("..", file))
						require.NoError(t, err)
						given = chartutil.CoalesceTables(more, given)
					}
					for path, text := range release.SetValueTemplates {
						var value strings.Builder
						require.NoError(t, template.Must(template.New(path).Parse(text)).Execute(&value, images))
						require.NoError(t, strvals.ParseInto(path+"="+value.String(), given))
					}
					used := map[string]bool{}
					for _, p := range pods(rendered(t, given)) {
						name, tag, _ := strings.Cut(strings.TrimPrefix(p.container.Image, "opportunity/"), ":")
						used[name] = true
						require.Equal(t, len(images) > 0, tag == "built", "%s: %s", p.owner, p.container.Image)
					}
					require.ElementsMatch(t, programs, keys(used))
				}
				releases++
			}
		}
	}
	require.Equal(t, 2, builds, "the configuration and the profile debug")
	require.Equal(t, 3, releases, "the configuration and its two profiles")
}
