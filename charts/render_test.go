package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = "opportunity"
	release   = "opportunity"
	namespace = "data"
)

// kubernetes is the version of the cluster.
var kubernetes = &chartutil.KubeVersion{Version: "v1.35.0", Major: "1", Minor: "35"}

var services = []string{"authquota", "billing", "catalog", "gateway", "history"}

// values are the values of a release.
type values = map[string]any

// least returns the minimum values of an installation with billing.
func least() values {
	return values{
		"publicURL": "https://data.example.com", "mailFrom": "no-reply@example.com",
		"billing": values{"env": values{"OPPORTUNITY_STRIPE_PRICE": "price_1"}},
	}
}

// with returns the minimum values with one value changed. path has the syntax of helm --set.
func with(path string, value any) values { return set(least(), path, value) }

func set(v values, path string, value any) values {
	at, names := v, strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		next, _ := at[name].(values)
		if next == nil {
			next = values{}
			at[name] = next
		}
		at = next
	}
	at[names[len(names)-1]] = value
	return v
}

// loaded is the chart, loaded once. Rendering does not modify it, because it has no dependencies.
var loaded = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(chartDir) })

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loaded()
	require.NoError(t, err)
	require.Empty(t, c.Dependencies())
	return c
}

// render renders the manifests like helm install in a cluster with all API versions.
func render(t *testing.T, given values) ([]manifest, error) {
	t.Helper()
	return renderAs(t, release, given)
}

// renderAs is render for a release with a name.
func renderAs(t *testing.T, name string, given values) (all []manifest, err error) {
	t.Helper()
	files, err := renderFiles(t, name, given, engine.Render)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".yaml" {
			for _, document := range releaseutil.SplitManifests(files[name]) {
				all = append(all, decode(t, name, document))
			}
		}
	}
	return all, err
}

// renderFiles renders all templates like helm install, by their names.
func renderFiles(t *testing.T, name string, given values,
	render func(*chart.Chart, chartutil.Values) (map[string]string, error),
) (map[string]string, error) {
	t.Helper()
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubernetes
	all, err := chartutil.ToRenderValues(load(t), given,
		chartutil.ReleaseOptions{Name: name, Namespace: namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	return render(load(t), all)
}

// rendered is like render and fails the test on an error.
func rendered(t *testing.T, given values) []manifest {
	t.Helper()
	out, err := render(t, given)
	require.NoError(t, err)
	return out
}

// cases returns the values files to test: those in ci, and those for development.
func cases(t *testing.T) map[string]values {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	more, err := filepath.Glob("../k8s/*/values.yaml")
	require.NoError(t, err)
	out := map[string]values{}
	for _, file := range append(files, more...) {
		var v values
		require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, file)), &v), file)
		out[strings.TrimPrefix(file, chartDir+"/")] = v
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// made caches the manifests of each case. Tests must not modify them.
var made = map[string][]manifest{}

// eachCase runs a test on the manifests of each case.
func eachCase(t *testing.T, test func(t *testing.T, all []manifest)) {
	t.Helper()
	for name, given := range cases(t) {
		if made[name] == nil {
			made[name] = rendered(t, given)
		}
		t.Run(name, func(t *testing.T) { test(t, made[name]) })
	}
}

func TestLint(t *testing.T) {
	for name, given := range cases(t) {
		result := lint.AllWithKubeVersion(chartDir, given, namespace, kubernetes)
		for _, m := range result.Messages {
			require.Less(t, m.Severity, support.WarningSev, "%s: %s", name, m.Error())
		}
	}
}
