package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
	out := map[string]values{}
	for _, file := range append(glob(t, chartDir+"/ci/*-values.yaml"), glob(t, "../k8s/*/values.yaml")...) {
		var v values
		require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, file)), &v), file)
		out[strings.TrimPrefix(file, chartDir+"/")] = v
	}
	return out
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// made caches the manifests of each case. Tests must not modify manifests.
var made = map[string][]manifest{}

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

// types has the Go types of all objects in the chart and in the folder k8s.
var types = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme} {
		if err := add(types); err != nil {
			panic(err)
		}
	}
}

// manifest is an object of a file.
type manifest struct {
	file string
	text string
	metav1.TypeMeta
	metav1.Object
}

// decoded has the manifests by their text. Most are the same for all values, and parsing them takes
// longer than rendering.
var decoded = map[string]manifest{}

// decode decodes a manifest into the type of its kind. Unknown and repeated fields fail the test.
func decode(t *testing.T, file, text string) manifest {
	t.Helper()
	if m, again := decoded[text]; again {
		m.file = file
		return m
	}
	m := manifest{file: file, text: text}
	require.NoError(t, yaml.Unmarshal([]byte(text), &m.TypeMeta), text)
	object, err := types.New(m.GroupVersionKind())
	require.NoError(t, err, file)
	m.Object = object.(metav1.Object)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), m.Object), text)
	decoded[text] = m
	return m
}

func of[T metav1.Object](all []manifest) []T {
	var out []T
	for _, m := range all {
		if o, ok := m.Object.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func named[T metav1.Object](t *testing.T, all []manifest, name string) T {
	t.Helper()
	i := slices.IndexFunc(of[T](all), func(o T) bool { return o.GetName() == name })
	require.NotEqual(t, -1, i, "object not found: %T %s", *new(T), name)
	return of[T](all)[i]
}

// pod is the pod template of an object.
type pod struct {
	owner       string // kind and name
	serves      bool   // runs until it is stopped
	meta        metav1.ObjectMeta
	spec        corev1.PodSpec
	container   corev1.Container
	environment map[string]string // of the container; variables from Secrets are empty
}

func pods(all []manifest) (out []pod) {
	for _, m := range all {
		var template corev1.PodTemplateSpec
		serves := false
		switch o := m.Object.(type) {
		case *appsv1.Deployment:
			template, serves = o.Spec.Template, true
		case *appsv1.StatefulSet:
			template, serves = o.Spec.Template, true
		case *batchv1.Job:
			template = o.Spec.Template
		case *batchv1.CronJob:
			template = o.Spec.JobTemplate.Spec.Template
		case *corev1.Pod:
			template = corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		default:
			continue
		}
		p := pod{m.Kind + " " + m.GetName(), serves, template.ObjectMeta, template.Spec, template.Spec.Containers[0],
			map[string]string{}}
		for _, e := range p.container.Env {
			p.environment[e.Name] = e.Value
		}
		out = append(out, p)
	}
	return out
}

func podOf(t *testing.T, all []manifest, owner string) pod {
	t.Helper()
	i := slices.IndexFunc(pods(all), func(p pod) bool { return p.owner == owner })
	require.NotEqual(t, -1, i, "%s has no pods", owner)
	return pods(all)[i]
}
