package charts_test

import (
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
	owner  string // kind and name
	serves bool   // runs until it is stopped
	meta   metav1.ObjectMeta
	spec   corev1.PodSpec
}

// pods returns the pod templates of all objects.
func pods(all []manifest) []pod {
	var out []pod
	for _, m := range all {
		owner := m.Kind + " " + m.GetName()
		switch o := m.Object.(type) {
		case *appsv1.Deployment:
			out = append(out, pod{owner, true, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec})
		case *batchv1.Job:
			out = append(out, pod{owner, false, o.Spec.Template.ObjectMeta, o.Spec.Template.Spec})
		case *batchv1.CronJob:
			template := o.Spec.JobTemplate.Spec.Template
			out = append(out, pod{owner, false, template.ObjectMeta, template.Spec})
		case *corev1.Pod:
			out = append(out, pod{owner, false, o.ObjectMeta, o.Spec})
		}
	}
	return out
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

// TestDecodingIsStrict checks that decoding is as strict as the other tests assume.
func TestDecodingIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown field": "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 80}\n",
		"a wrong type":     "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: two}\n",
		"a key twice":      "apiVersion: v1\nkind: Service\nkind: Service\n",
	} {
		require.Error(t, yaml.UnmarshalStrict([]byte(text), map[bool]any{true: new(appsv1.Deployment), false: new(corev1.Service)}[name == "a wrong type"]), name)
	}
	_, known := kinds[metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}]
	require.False(t, known, "the chart must not create Secrets")
}
