package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// kinds lists all objects that the chart may create. A Secret is none of them.
var kinds = strings.Fields("ConfigMap CronJob Deployment HTTPRoute HorizontalPodAutoscaler Ingress Job NetworkPolicy Pod " +
	"PodDisruptionBudget PrometheusRule Service ServiceAccount ServiceMonitor")

// TestManifestsAreNamedAndLabeled checks kinds and labels, and that names are unique.
func TestManifestsAreNamedAndLabeled(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		there := map[string]bool{}
		for _, m := range all {
			id := m.Kind + " " + m.GetName()
			require.Contains(t, kinds, m.Kind, m.file)
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

// examples returns the objects of a folder of k8s. Custom resources without a Go module are not
// decoded.
func examples(t *testing.T, folder string) (all []manifest) {
	t.Helper()
	for _, file := range glob(t, "../k8s/"+folder+"/*.yaml") {
		for doc := range strings.SplitSeq(read(t, file), "\n---\n") {
			var head metav1.TypeMeta
			require.NoError(t, yaml.Unmarshal([]byte(doc), &head), file)
			switch head.GroupVersionKind().Group {
			case "kustomize.config.k8s.io", "postgresql.cnpg.io", "barmancloud.cnpg.io", "cert-manager.io":
			default:
				if head.Kind != "" {
					all = append(all, decode(t, file, doc))
				}
			}
		}
	}
	require.NotEmpty(t, pods(all))
	return all
}

// eachInstallation runs a test on the manifests of each case and of each folder of k8s.
func eachInstallation(t *testing.T, test func(t *testing.T, all []manifest)) {
	t.Helper()
	eachCase(t, test)
	for _, folder := range []string{"dev", "production"} {
		t.Run("k8s/"+folder, func(t *testing.T) { test(t, examples(t, folder)) })
	}
}

// TestPodsHaveMinimalAccess runs the checks of the admission plugin for the restricted standard,
// and checks restrictions beyond it.
func TestPodsHaveMinimalAccess(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	bare := corev1.PodSpec{Containers: []corev1.Container{{Name: "bare", Image: "bare"}}}
	require.False(t, policy.AggregateCheckResults(checks.EvaluatePod(restricted, &metav1.ObjectMeta{}, &bare)).Allowed,
		"the checks must reject a bare pod")
	eachInstallation(t, func(t *testing.T, all []manifest) {
		for _, p := range pods(all) {
			result := policy.AggregateCheckResults(checks.EvaluatePod(restricted, &p.meta, &p.spec))
			require.True(t, result.Allowed, "%s: %s", p.owner, result.ForbiddenDetail())
			require.False(t, *p.spec.AutomountServiceAccountToken, p.owner)
			for _, c := range p.spec.Containers {
				require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, p.owner)
				require.False(t, c.Resources.Limits.Memory().IsZero(), p.owner)
				require.Regexp(t, `:v?\d+\.\d+|@sha256:|^opportunity/`, c.Image, "%s: the image must have a version", p.owner)
				require.True(t, !p.serves || c.ReadinessProbe != nil, p.owner)
			}
		}
	})
	eachCase(t, func(t *testing.T, all []manifest) {
		for _, p := range pods(all) {
			require.False(t, *p.spec.EnableServiceLinks, p.owner)
			require.Len(t, p.spec.Containers, 1, p.owner)
			require.Empty(t, p.container.Command, "%s: must use the image's entrypoint", p.owner)
			require.False(t, p.container.Resources.Requests.Memory().IsZero(), p.owner)
			require.False(t, p.container.Resources.Requests.Cpu().IsZero(), p.owner)
			require.True(t, p.container.Resources.Limits.Cpu().IsZero(), "%s: a CPU limit would slow responses down", p.owner)
			account := named[*corev1.ServiceAccount](t, all, p.spec.ServiceAccountName)
			require.False(t, *account.AutomountServiceAccountToken, account.Name)
			hook, weight := account.Annotations["helm.sh/hook"], account.Annotations["helm.sh/hook-weight"]
			if strings.HasPrefix(p.owner, "Job ") { // which runs before the release
				require.Equal(t, "pre-install,pre-upgrade -10", hook+" "+weight, p.owner)
			} else {
				require.Empty(t, hook, p.owner)
			}
		}
	})
}

// TestJobsHaveOnlyDatabaseSecret checks that the link checker and the migrations have no secret but
// the URL of their database, and helm test none but an operator token.
func TestJobsHaveOnlyDatabaseSecret(t *testing.T) {
	seen := map[string]string{}
	for _, p := range pods(rendered(t, with("catalog.migrateSecretName", "catalog-owner"))) {
		if p.serves {
			continue
		}
		require.Empty(t, p.container.EnvFrom, p.owner)
		var secrets []string
		for _, e := range p.container.Env {
			if e.ValueFrom != nil {
				secrets = append(secrets, e.ValueFrom.SecretKeyRef.Name+"/"+e.ValueFrom.SecretKeyRef.Key)
			}
		}
		seen[p.owner] = strings.ReplaceAll(strings.Join(secrets, " "), "/OPPORTUNITY_DATABASE_URL", "")
	}
	require.Equal(t, map[string]string{
		"Job opportunity-catalog-migrate":         "catalog-owner",
		"Job opportunity-history-migrate":         "opportunity-history",
		"Job opportunity-authquota-migrate":       "opportunity-authquota",
		"Job opportunity-billing-migrate":         "opportunity-billing",
		"CronJob opportunity-history-check-links": "opportunity-history",
		"CronJob opportunity-billing-reconcile":   "opportunity-billing opportunity-billing/OPPORTUNITY_STRIPE_API_KEY",
		"Pod opportunity-test":                    "opportunity-operator/OPPORTUNITY_OPERATOR_TOKEN",
	}, seen)
}

// TestServicesFindTheirPods checks that each Service selects the pods of one object that serves, on
// an existing port: the API server accepts one that matches nothing.
func TestServicesFindTheirPods(t *testing.T) {
	eachInstallation(t, func(t *testing.T, all []manifest) {
		for _, s := range of[*corev1.Service](all) {
			selector := maps.Clone(s.Spec.Selector)
			delete(selector, "statefulset.kubernetes.io/pod-name") // set by the cluster
			found := slices.DeleteFunc(pods(all), func(p pod) bool { return !matches(selector, p.meta.Labels) })
			require.Len(t, found, 1, s.Name)
			require.True(t, found[0].serves, "%s selects %s", s.Name, found[0].owner)
			for _, port := range s.Spec.Ports {
				require.True(t, slices.ContainsFunc(found[0].spec.Containers, func(c corev1.Container) bool {
					return slices.ContainsFunc(c.Ports, func(open corev1.ContainerPort) bool {
						return open.Name == port.TargetPort.String()
					})
				}), "%s: port %s", s.Name, port.Name)
			}
		}
	})
}

func matches(selector, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// TestOnlyThePublicPortIsExposed checks that an Ingress, an HTTPRoute and a load balancer expose
// only the gateway's public port.
func TestOnlyThePublicPortIsExposed(t *testing.T) {
	eachCase(t, func(t *testing.T, all []manifest) {
		public := named[*corev1.Service](t, all, "opportunity-gateway").Spec.Ports
		require.Len(t, public, 1)
		require.Equal(t, "http", public[0].TargetPort.String())
		for _, s := range of[*corev1.Service](all) {
			require.True(t, s.Name == "opportunity-gateway" || s.Spec.Type == corev1.ServiceTypeClusterIP, s.Name)
		}
		for _, i := range of[*networkingv1.Ingress](all) {
			require.Nil(t, i.Spec.DefaultBackend)
			for _, rule := range i.Spec.Rules {
				require.Equal(t, "data.example.com", rule.Host)
				for _, path := range rule.HTTP.Paths {
					require.Equal(t, "opportunity-gateway "+public[0].Name,
						path.Backend.Service.Name+" "+path.Backend.Service.Port.Name)
				}
			}
		}
		for _, r := range of[*gatewayv1.HTTPRoute](all) {
			require.Equal(t, []gatewayv1.Hostname{"data.example.com"}, r.Spec.Hostnames)
			for _, rule := range r.Spec.Rules {
				for _, backend := range rule.BackendRefs {
					require.Equal(t, "opportunity-gateway", string(backend.Name))
					require.EqualValues(t, public[0].Port, *backend.Port)
				}
			}
		}
	})
}

// TestOnlyDevelopmentAllowsPlaintextStores checks the values of both folders of k8s, and the URLs
// that production documents.
func TestOnlyDevelopmentAllowsPlaintextStores(t *testing.T) {
	for file, want := range map[string]string{
		"dev/values.yaml":      `OPPORTUNITY_ALLOW_PLAINTEXT_STORES: "true"`,
		"production/README.md": `(?m)^    postgres://\S+sslmode=verify-full$(.|\n)*^    rediss\+sentinel://`,
	} {
		require.Regexp(t, want, read(t, "../k8s/"+file))
	}
	require.NotContains(t, read(t, "../k8s/production/values.yaml"), "OPPORTUNITY_ALLOW_PLAINTEXT_STORES")
}
