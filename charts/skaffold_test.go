package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// skaffoldRelease is a release of the chart in skaffold.yaml.
type skaffoldRelease struct {
	ChartPath         string
	ValuesFiles       []string
	SetValueTemplates map[string]string
}

// skaffoldReleases returns the releases of skaffold.yaml by profile, the default under "".
func skaffoldReleases(t *testing.T) map[string]skaffoldRelease {
	t.Helper()
	type deploy struct {
		Helm struct{ Releases []skaffoldRelease }
	}
	text, err := os.ReadFile("../skaffold.yaml")
	require.NoError(t, err)
	all := map[string]skaffoldRelease{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var config struct {
			Deploy   deploy
			Profiles []struct {
				Name   string
				Deploy deploy
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &config))
		for _, r := range config.Deploy.Helm.Releases {
			all[""] = r
		}
		for _, p := range config.Profiles {
			for _, r := range p.Deploy.Helm.Releases {
				all[p.Name] = r
			}
		}
	}
	require.Len(t, all, 3)
	return all
}

// values returns what skaffold passes to helm: the files, and each template with the variables as
// an argument of --set.
func (r skaffoldRelease) values(t *testing.T, variables map[string]string) values {
	t.Helper()
	all := map[string]any{}
	for _, file := range r.ValuesFiles {
		more, err := chartutil.ReadValuesFile(filepath.Join("..", file))
		require.NoError(t, err)
		all = chartutil.CoalesceTables(more, all)
	}
	for path, text := range r.SetValueTemplates {
		var value strings.Builder
		require.NoError(t, template.Must(template.New(path).Parse(text)).Execute(&value, variables))
		require.NoError(t, strvals.ParseInto(path+"="+value.String(), all))
	}
	return all
}

// TestSkaffoldPassesValidValues renders the chart as `skaffold render --digest-source=none` does,
// where no image is built, and as after a build.
func TestSkaffoldPassesValidValues(t *testing.T) {
	built := map[string]string{}
	for _, name := range append([]string{"opportunity"}, services...) {
		built["IMAGE_FULLY_QUALIFIED_opportunity_"+name] = "opportunity/" + name + ":built"
	}
	for profile, r := range skaffoldReleases(t) {
		require.Equal(t, "charts/"+chartDir, r.ChartPath)
		for _, images := range []map[string]string{{}, built} {
			deployments := of[*appsv1.Deployment](rendered(t, r.values(t, images)))
			require.Len(t, deployments, len(services), profile)
			for _, d := range deployments {
				image := d.Spec.Template.Spec.Containers[0].Image
				name := d.Spec.Template.Spec.Containers[0].Name
				require.Contains(t, image, "opportunity/"+name+":", profile)
				require.Equal(t, len(images) > 0, strings.HasSuffix(image, ":built"), "%s: %s", profile, image)
			}
		}
	}
}
