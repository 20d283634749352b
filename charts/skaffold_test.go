package charts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// TestSkaffoldPassesValidValues renders the chart with what skaffold.yaml and each of its profiles
// pass to helm, as `skaffold render --digest-source=none` does, where no image is built, and as
// after a build.
func TestSkaffoldPassesValidValues(t *testing.T) {
	type pipeline struct {
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
	var config struct {
		pipeline
		Profiles []pipeline
	}
	text, err := os.ReadFile("../skaffold.yaml")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n---\n")) // the stores come first
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Len(t, config.Profiles, 2)
	programs, built := append([]string{"opportunity"}, services...), map[string]string{}
	for _, name := range programs {
		built["IMAGE_FULLY_QUALIFIED_opportunity_"+name] = "opportunity/" + name + ":built"
	}
	for _, p := range append(config.Profiles, config.pipeline) {
		release := p.Deploy.Helm.Releases[0]
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
	}
}
