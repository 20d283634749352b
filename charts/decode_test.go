package charts_test

import (
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

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

// decode decodes a manifest into the type of its kind. Unknown and repeated fields fail the test.
func decode(t *testing.T, file, text string) manifest {
	t.Helper()
	m := manifest{file: file, text: text}
	require.NoError(t, yaml.Unmarshal([]byte(text), &m.TypeMeta), text)
	object, err := types.New(m.GroupVersionKind())
	require.NoError(t, err, file)
	m.Object = object.(metav1.Object)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), m.Object), text)
	return m
}

// of returns the objects of one type.
func of[T metav1.Object](all []manifest) []T {
	var out []T
	for _, m := range all {
		if o, ok := m.Object.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// named returns the object of one type with that name.
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

// pods returns the pod templates of all objects.
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

// podOf returns the pod template of the object with that kind and name.
func podOf(t *testing.T, all []manifest, owner string) pod {
	t.Helper()
	i := slices.IndexFunc(pods(all), func(p pod) bool { return p.owner == owner })
	require.NotEqual(t, -1, i, "%s has no pods", owner)
	return pods(all)[i]
}
