package charts_test

import (
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// kinds lists the types of all objects that the chart may create. Any other kind, such as a Secret,
// fails every test.
var kinds = map[metav1.TypeMeta]func() metav1.Object{
	{APIVersion: "apps/v1", Kind: "Deployment"}:                      func() metav1.Object { return new(appsv1.Deployment) },
	{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}:  func() metav1.Object { return new(autoscalingv2.HorizontalPodAutoscaler) },
	{APIVersion: "batch/v1", Kind: "CronJob"}:                        func() metav1.Object { return new(batchv1.CronJob) },
	{APIVersion: "batch/v1", Kind: "Job"}:                            func() metav1.Object { return new(batchv1.Job) },
	{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute"}:  func() metav1.Object { return new(gatewayv1.HTTPRoute) },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"}: func() metav1.Object { return new(monitoringv1.PrometheusRule) },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}: func() metav1.Object { return new(monitoringv1.ServiceMonitor) },
	{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}:            func() metav1.Object { return new(networkingv1.Ingress) },
	{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}:      func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:           func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	{APIVersion: "v1", Kind: "ConfigMap"}:                            func() metav1.Object { return new(corev1.ConfigMap) },
	{APIVersion: "v1", Kind: "Pod"}:                                  func() metav1.Object { return new(corev1.Pod) },
	{APIVersion: "v1", Kind: "Service"}:                              func() metav1.Object { return new(corev1.Service) },
	{APIVersion: "v1", Kind: "ServiceAccount"}:                       func() metav1.Object { return new(corev1.ServiceAccount) },
}

// manifest is an object rendered from the chart.
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
	empty, known := kinds[m.TypeMeta]
	require.True(t, known, "%s creates a %s of %s", file, m.Kind, m.APIVersion)
	m.Object = empty()
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
	for _, o := range of[T](all) {
		if o.GetName() == name {
			return o
		}
	}
	var none T
	require.Failf(t, "object not found", "%T %s", none, name)
	return none
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
		p := pod{owner: m.Kind + " " + m.GetName(), environment: map[string]string{}}
		switch o := m.Object.(type) {
		case *appsv1.Deployment:
			p.serves, p.meta, p.spec = true, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec
		case *batchv1.Job:
			p.meta, p.spec = o.Spec.Template.ObjectMeta, o.Spec.Template.Spec
		case *batchv1.CronJob:
			p.meta, p.spec = o.Spec.JobTemplate.Spec.Template.ObjectMeta, o.Spec.JobTemplate.Spec.Template.Spec
		case *corev1.Pod:
			p.meta, p.spec = o.ObjectMeta, o.Spec
		default:
			continue
		}
		p.container = p.spec.Containers[0]
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

// TestManifestsAreNamedAndLabeled decodes all manifests strictly and checks their labels and that
// names are unique.
func TestManifestsAreNamedAndLabeled(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		there := map[string]bool{}
		for _, m := range all {
			id := m.Kind + " " + m.GetName()
			require.False(t, there[id], "duplicate object %s", id)
			there[id] = true
			require.LessOrEqual(t, len(m.GetName()), 63, id)
			for _, label := range []string{"name", "instance", "component", "version", "part-of"} {
				require.NotEmpty(t, m.GetLabels()["app.kubernetes.io/"+label], "%s has no label %s", id, label)
			}
			require.Empty(t, m.GetNamespace(), "%s: must not set a namespace, the release does", id)
		}
	})
}
