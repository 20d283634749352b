package k8s_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// kinds lists the API types that manifests may use. Custom resources without a Go module are not
// decoded.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                     func() any { return new(appsv1.Deployment) },
	"v1 ConfigMap":                           func() any { return new(corev1.ConfigMap) },
	"apps/v1 StatefulSet":                    func() any { return new(appsv1.StatefulSet) },
	"v1 Service":                             func() any { return new(corev1.Service) },
	"policy/v1 PodDisruptionBudget":          func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":     func() any { return new(networkingv1.NetworkPolicy) },
	"gateway.networking.k8s.io/v1 Gateway":   func() any { return new(gatewayv1.Gateway) },
	"gateway.networking.k8s.io/v1 HTTPRoute": func() any { return new(gatewayv1.HTTPRoute) },
	"postgresql.cnpg.io/v1 Cluster":          nil,
	"postgresql.cnpg.io/v1 Database":         nil,
	"postgresql.cnpg.io/v1 ScheduledBackup":  nil,
	"barmancloud.cnpg.io/v1 ObjectStore":     nil,
	"cert-manager.io/v1 Certificate":         nil,
	"cert-manager.io/v1 Issuer":              nil,
}

// manifests returns all objects of both folders, by file and name.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob("*/*.yaml")
	require.NoError(t, err)
	objects := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, doc := range strings.Split(string(text), "\n---\n") {
			var head struct {
				metav1.TypeMeta   `json:",inline"`
				metav1.ObjectMeta `json:"metadata"`
			}
			require.NoError(t, yaml.Unmarshal([]byte(doc), &head), file)
			if head.Kind == "" || head.Kind == "Kustomization" {
				continue
			}
			kind, known := kinds[head.APIVersion+" "+head.Kind]
			require.True(t, known, "%s: %s %s", file, head.APIVersion, head.Kind)
			if kind == nil {
				continue
			}
			object := kind()
			require.NoError(t, yaml.UnmarshalStrict([]byte(doc), object), "%s: %s", file, head.Name)
			objects[file+" "+head.Kind+" "+head.Name] = object
		}
	}
	return objects
}

// pods returns the pod templates of all manifests.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	templates := map[string]corev1.PodTemplateSpec{}
	for name, object := range manifests(t) {
		switch o := object.(type) {
		case *appsv1.Deployment:
			templates[name] = o.Spec.Template
		case *appsv1.StatefulSet:
			templates[name] = o.Spec.Template
		}
	}
	require.Len(t, templates, 7)
	return templates
}

func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	for name, pod := range pods(t) {
		for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted,
			Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			require.True(t, result.Allowed, "%s: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
		}
		require.False(t, *pod.Spec.AutomountServiceAccountToken, name)
		for _, c := range pod.Spec.Containers {
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.NotZero(t, c.Resources.Limits.Memory().Value(), name)
			require.NotNil(t, c.ReadinessProbe, name)
			require.Regexp(t, regexp.MustCompile(`:v?\d+\.\d+`), c.Image, "%s: the image must have a version", name)
		}
	}
}

// TestServicesMatchPods exists because the API server accepts a Service with a selector or port
// that matches no pod.
func TestServicesMatchPods(t *testing.T) {
	templates := pods(t)
	for name, object := range manifests(t) {
		service, ok := object.(*corev1.Service)
		if !ok {
			continue
		}
		found := false
		for owner, pod := range templates {
			delete(service.Spec.Selector, "statefulset.kubernetes.io/pod-name") // set by the cluster
			if filepath.Dir(owner) != filepath.Dir(name) || !fits(service.Spec.Selector, pod.Labels) {
				continue
			}
			found = true
			for _, port := range service.Spec.Ports {
				require.True(t, slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
					return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
						return p.Name == port.TargetPort.StrVal && p.ContainerPort == port.Port
					})
				}), "%s: port %s", name, port.Name)
			}
		}
		require.True(t, found, name)
	}
}

func fits(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// TestOnlyDevelopmentAllowsPlaintextStores checks the values of both folders, and the URLs that
// production documents.
func TestOnlyDevelopmentAllowsPlaintextStores(t *testing.T) {
	allowed := map[string]bool{}
	for _, folder := range []string{"dev", "production"} {
		text, err := os.ReadFile(folder + "/values.yaml")
		require.NoError(t, err)
		allowed[folder] = strings.Contains(string(text), `OPPORTUNITY_ALLOW_PLAINTEXT_STORES: "true"`)
	}
	require.Equal(t, map[string]bool{"dev": true, "production": false}, allowed)
	readme, err := os.ReadFile("production/README.md")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^    postgres://\S+sslmode=verify-full$`, string(readme))
	require.Regexp(t, `(?m)^    rediss\+sentinel://`, string(readme))
}
