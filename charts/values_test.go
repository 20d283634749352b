package charts_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// TestInvalidValuesAreRejected checks that the message names the value and what was expected.
func TestInvalidValuesAreRejected(t *testing.T) {
	for _, valid := range []values{
		least(), with("secretsRevision", 2), with("publicURL", "http://localhost:8080"),
		with("publicURL", "https://example.com/data"),
		with("mailFrom", "Data <no-reply@example.com>"),
	} {
		_, err := render(t, valid)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		path    string
		value   any
		message string
	}{
		{"publicURL", "", `publicURL must be an http or https URL without a trailing slash, such as https://data.example.com, not ""`},
		{"publicURL", "data.example.com", `not "data.example.com"`},
		{"publicURL", "https://data.example.com/", "without a trailing slash"},
		{"mailFrom", "nobody",
			`mailFrom must be an address, or a name and the address in angle brackets, such as Data <no-reply@example.com>, not "nobody"`},
		{"gateway.replicas", 0, "at '/gateway/replicas': minimum: got 0, want 1"},
		{"gateway.service.type", "ExternalName",
			"at '/gateway/service/type': value must be one of 'ClusterIP', 'LoadBalancer', 'NodePort'"},
		{"gateway.env.OPPORTUNITY_SERVICE_CAPACITY", 5,
			"at '/gateway/env/OPPORTUNITY_SERVICE_CAPACITY': got number, want string"},
		{"gateway.env.OPPORTUNITY_SERVICE_CAPACTY", "5",
			"gateway.env.OPPORTUNITY_SERVICE_CAPACTY is not a setting: docs/configuration.md lists them"},
		{"env.OPPORTUNITY_LOGLEVEL", "DEBUG", "env.OPPORTUNITY_LOGLEVEL is not a setting"},
		{"catalog.env.OPPORTUNITY_SERVICE_CAPACITY", "5",
			"catalog.env.OPPORTUNITY_SERVICE_CAPACITY has no effect: it is a setting of gateway"},
		{"gateway.env.OPPORTUNITY_ADMIN_LISTEN", ":8080",
			"gateway.env.OPPORTUNITY_ADMIN_LISTEN is set by the chart itself: take it out"},
		{"authquota.env.OPPORTUNITY_TERMS_VERSION", "2",
			"authquota.env.OPPORTUNITY_TERMS_VERSION must be env.OPPORTUNITY_TERMS_VERSION"},
		{"env.OPPORTUNITY_SHUTDOWN_GRACE", "0s", "env.OPPORTUNITY_SHUTDOWN_GRACE is set by the chart itself"},
		{"catalog.autoscaling", values{"enabled": true, "maxReplicas": 1},
			"catalog.autoscaling.maxReplicas (1) must not be below minReplicas (2)"},
		{"history.checkLinks.schedule", "hourly", "at '/history/checkLinks/schedule': 'hourly' does not match pattern"},
		{"billing.env.OPPORTUNITY_STRIPE_PRICE", "", "billing.env.OPPORTUNITY_STRIPE_PRICE is missing"},
		{"desk.enabled", true, "at '/desk/publicURL': minLength: got 0, want 1"},
		{"desk.publicURL", "https://desk.example.com/",
			"at '/desk/publicURL': 'https://desk.example.com/' does not match pattern"},
		{"shutdown.graceSeconds", 0, "at '/shutdown/graceSeconds': minimum: got 0, want 1"},
		{"image.registry", "registry.example.com/", "at '/image/registry'"},
		{"image.digests", values{"gateway": "1.0.0"}, "at '/image/digests/gateway'"},
		{"httpRoute.enabled", true, "at '/httpRoute/parentRefs': minItems: got 0, want 1"},
		{"networkPolicy.clusterRanges", []any{"10.0.0.1"},
			"at '/networkPolicy/clusterRanges/0': '10.0.0.1' does not match pattern"},
		{"networkPolicy.postgres.peers", []any{values{}}, "at '/networkPolicy/postgres/peers/0': minProperties"},
		{"networkPolicy.redis.ports", []any{"redis"}, "at '/networkPolicy/redis/ports/0': got string, want integer"},
	} {
		_, err := render(t, with(c.path, c.value))
		require.ErrorContains(t, err, c.message, "%s: %v", c.path, c.value)
	}
}

// TestValuesThatOtherChartsHave sets each value that users of other charts look for.
func TestValuesThatOtherChartsHave(t *testing.T) {
	given := withDesk()
	require.NoError(t, yaml.Unmarshal([]byte(`
fullnameOverride: data-api
commonLabels: {team: data}
commonAnnotations: {contact: data@example.com, a: all}
priorityClassName: data
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]
extraDeploy:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-map"}}
  - "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}"
ingress: {enabled: true, tlsSecretName: tls, extraHosts: [api.example.com]}
history: {autoscaling: {enabled: true, behavior: {scaleDown: {stabilizationWindowSeconds: 600}}}}
gateway:
  replicas: 3
  priorityClassName: edge
  affinity: {podAffinity: {}}
  podSecurityContext: {runAsNonRoot: true}
  podAnnotations: {a: b}
  initContainers: [{name: first, image: example.com/first}]
  sidecars: [{name: beside, image: example.com/beside}]
  extraVolumes: [{name: extra, emptyDir: {}}]
  extraVolumeMounts: [{name: extra, mountPath: /extra}]
  extraEnvFrom: [{configMapRef: {name: extra}}]
  updateStrategy: {type: Recreate}
  podDisruptionBudget: {maxUnavailable: 50%}
  serviceAccount: {name: existing}
  service: {type: LoadBalancer, loadBalancerClass: example.com/lb, loadBalancerSourceRanges: [192.0.2.0/24]}
  resources: {limits: {memory: 256Mi, ephemeral-storage: 1Gi}}
catalog:
  serviceAccount: {annotations: {example.com/role: catalog}}
`), &given))
	all := rendered(t, given)
	for _, m := range all {
		if m.file != "opportunity/templates/release/extra.yaml" {
			require.Equal(t, "data", m.GetLabels()["team"], m.GetName())
			require.Equal(t, "data@example.com", m.GetAnnotations()["contact"], m.GetName())
		}
	}
	for _, p := range pods(all) {
		require.Equal(t, "data", p.meta.Labels["team"], p.owner)
		require.Equal(t, "data@example.com", p.meta.Annotations["contact"], p.owner)
		if p.owner != "Deployment data-api-gateway" {
			require.Equal(t, "all", p.meta.Annotations["a"], p.owner)
			require.Equal(t, "data", p.spec.PriorityClassName, p.owner)
			require.Nil(t, p.spec.Affinity, p.owner)
			require.EqualValues(t, 65532, *p.spec.SecurityContext.RunAsUser, p.owner)
		}
		if p.serves && p.owner != "Deployment data-api-desk" {
			require.EqualValues(t, 2, p.spec.TopologySpreadConstraints[0].MaxSkew, p.owner)
		}
	}

	d := named[*appsv1.Deployment](t, all, "data-api-gateway")
	require.EqualValues(t, 3, *d.Spec.Replicas)
	require.Equal(t, "all", d.Annotations["a"])
	require.NotContains(t, d.Spec.Selector.MatchLabels, "team", "a selector is immutable")
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, d.Spec.Strategy.Type)
	require.Nil(t, d.Spec.Strategy.RollingUpdate)
	pod := d.Spec.Template.Spec
	require.Equal(t, "b", d.Spec.Template.Annotations["a"])
	require.Equal(t, "edge", pod.PriorityClassName)
	require.NotNil(t, pod.Affinity)
	require.Nil(t, pod.SecurityContext.RunAsUser)
	require.Equal(t, "existing", pod.ServiceAccountName)
	require.Equal(t, "first", pod.InitContainers[0].Name)
	require.Equal(t, "beside", pod.Containers[0].Name)
	require.Contains(t, pod.Volumes,
		corev1.Volume{Name: "extra", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	require.Contains(t, pod.Containers[1].VolumeMounts, corev1.VolumeMount{Name: "extra", MountPath: "/extra"})
	require.Equal(t, "extra", pod.Containers[1].EnvFrom[1].ConfigMapRef.Name)
	require.Equal(t, "1Gi", pod.Containers[1].Resources.Limits.StorageEphemeral().String())
	for _, account := range of[*corev1.ServiceAccount](all) {
		require.NotEqual(t, "data-api-gateway", account.Name, "it is an existing one")
		require.Equal(t, account.Name == "data-api-catalog", account.Annotations["example.com/role"] == "catalog", account.Name)
	}
	require.Equal(t, "50%", named[*policyv1.PodDisruptionBudget](t, all, "data-api-gateway").Spec.MaxUnavailable.String())
	require.EqualValues(t, 600,
		*of[*autoscalingv2.HorizontalPodAutoscaler](all)[0].Spec.Behavior.ScaleDown.StabilizationWindowSeconds)
	public := named[*corev1.Service](t, all, "data-api-gateway").Spec
	require.Equal(t, "example.com/lb", *public.LoadBalancerClass)
	require.Equal(t, []string{"192.0.2.0/24"}, public.LoadBalancerSourceRanges)
	ingress := named[*networkingv1.Ingress](t, all, "data-api-gateway").Spec
	require.Equal(t, []string{"data.example.com", "api.example.com"}, ingress.TLS[0].Hosts)
	require.Equal(t, "api.example.com", ingress.Rules[1].Host)
	require.Equal(t, ingress.Rules[0].HTTP, ingress.Rules[1].HTTP)
	named[*corev1.ConfigMap](t, all, "opportunity-map")
	named[*corev1.ConfigMap](t, all, "text")
	named[*appsv1.Deployment](t, rendered(t, with("nameOverride", "jobs")), "opportunity-jobs-gateway")
}

// TestAddressOfPublicURLIsRejectedWhereAHostIsNeeded: an Ingress and an HTTPRoute have names only.
func TestAddressOfPublicURLIsRejectedWhereAHostIsNeeded(t *testing.T) {
	route := values{"enabled": true, "parentRefs": []any{values{"name": "public"}}}
	for url, address := range map[string]string{
		"https://[2001:db8::1]": "[2001:db8::1]", "https://[2001:db8::1]:8443/data": "[2001:db8::1]",
		"http://192.0.2.1:8080": "192.0.2.1",
	} {
		rendered(t, with("publicURL", url)) // without either
		for path, value := range map[string]values{"ingress": {"enabled": true}, "httpRoute": route} {
			_, err := render(t, set(with("publicURL", url), path, value))
			require.ErrorContains(t, err, "publicURL has the address "+address+": use a host name", path)
		}
	}
	all := rendered(t, set(with("publicURL", "https://Data.Example.com:8443"), "ingress.enabled", true))
	require.Equal(t, "data.example.com", of[*networkingv1.Ingress](all)[0].Spec.Rules[0].Host)
}

// TestMisspeltAndEmptyValues adds an unknown value to each group of values, and leaves each value
// empty, as a key without a value in a file does.
func TestMisspeltAndEmptyValues(t *testing.T) {
	var defaults values
	require.NoError(t, yaml.Unmarshal([]byte(read(t, chartDir+"/values.yaml")), &defaults))
	features := func() values {
		v := least()
		for _, path := range []string{
			"desk.enabled", "ingress.enabled", "httpRoute.enabled", "monitoring.serviceMonitor.enabled",
			"monitoring.prometheusRule.enabled",
			"monitoring.dashboards.enabled", "gateway.autoscaling.enabled",
		} {
			set(v, path, true)
		}
		set(v, "httpRoute.parentRefs", []any{values{"name": "public"}})
		return set(v, "desk.publicURL", "https://desk.example.com")
	}
	var visit func(path string, in values)
	visit = func(path string, in values) {
		for name, value := range in {
			at := strings.TrimPrefix(path+"."+name, ".")
			_, err := render(t, set(features(), at, nil))
			if err != nil {
				require.Regexp(t, "missing propert(y|ies) '"+name+"'|"+name+" must be|STRIPE_PRICE is missing: set", err.Error(),
					at)
				require.False(t, strings.HasSuffix("."+at, ".env") && at != "billing.env", at) // billing has a required setting
			}
			if inner, ok := value.(values); ok {
				visit(at, inner)
				if len(inner) > 0 && name != "requests" && name != "limits" {
					_, err := render(t, with(at+".misspelt", 1))
					require.ErrorContains(t, err, "misspelt", at)
				}
			}
		}
	}
	visit("", defaults)
	_, err := render(t, with("gatway", values{"replicas": 2}))
	require.ErrorContains(t, err, "additional properties 'gatway' not allowed")
}

// TestNamesThatYAMLReadsAsOtherTypes: labels and names of such releases and Secrets are strings,
// and Services get a valid name.
func TestNamesThatYAMLReadsAsOtherTypes(t *testing.T) {
	for _, name := range []string{"true", "null", "1e3", "0x1f", "2026-11-20", "12.5", "a.b", "opportunity.1"} {
		given := least()
		for _, path := range []string{
			"gateway.secretName", "catalog.migrateSecretName", "tls.secretName", "trustedCA.configMapName",
			"gateway.termsConfigMapName", "ingress.className", "ingress.tlsSecretName", "test.secretName", "priorityClassName",
		} {
			set(given, path, name)
		}
		set(given, "image.pullSecrets", []any{name})
		set(given, "tls.mode", "required")
		set(given, "ingress.enabled", true)
		set(given, "monitoring.serviceMonitor.enabled", true)
		all, err := renderAs(t, name, given) // which decodes strictly
		require.NoError(t, err, name)
		for _, s := range of[*corev1.Service](all) {
			require.Empty(t, validation.IsDNS1035Label(s.Name), name)
			require.Equal(t, name, s.Spec.Selector["app.kubernetes.io/instance"])
		}
	}
}

func TestNumbersStayAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct {
		given any
		want  string
	}{{1700000000, "1700000000"}, {1700000000.0, "1700000000"}, {"1e3", "1e3"}, {0, "0"}, {"", ""}} {
		for _, d := range of[*appsv1.Deployment](rendered(t, with("secretsRevision", c.given))) {
			require.Equal(t, c.want, d.Spec.Template.Annotations["opportunity.internal/secrets-revision"])
		}
	}
}

// TestMemoryLimitOfGo is nine tenths of the container's limit.
func TestMemoryLimitOfGo(t *testing.T) {
	for _, p := range pods(rendered(t, withDesk())) {
		if p.owner != "Pod opportunity-test" {
			want := p.container.Resources.Limits.Memory().Value() * 9 / 10
			require.Equal(t, strconv.FormatInt(want, 10), p.environment["GOMEMLIMIT"], p.owner)
		}
	}
	for _, c := range []struct {
		limit any
		want  string
	}{
		{"1Gi", "966367641"}, {"1.5Gi", "1449551462"}, {"512M", "460800000"}, {"1000000k", "900000000"}, {1e9, "900000000"},
		{500000000, "450000000"},
		{"1000000000", "900000000"}, {"1e9", ""}, {"100000000000m", ""}, {nil, ""},
	} {
		given := with("catalog.resources", values{"limits": values{"memory": c.limit}})
		catalog := podOf(t, rendered(t, given), "Deployment opportunity-catalog")
		require.Equal(t, c.want, catalog.environment["GOMEMLIMIT"], "%v", c.limit)
	}
	own := podOf(t, rendered(t, with("catalog.env.GOMEMLIMIT", "1GiB")), "Deployment opportunity-catalog")
	require.Equal(t, "1GiB", own.environment["GOMEMLIMIT"], "a setting takes precedence")
}
