package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func withDesk() values {
	return with("desk", values{"enabled": true, "publicURL": "https://desk.example.com"})
}

func TestDeskIsOptional(t *testing.T) {
	for _, m := range rendered(t, least()) {
		require.NotContains(t, m.text, "desk", m.file)
	}
	require.Len(t, of[*appsv1.Deployment](rendered(t, withDesk())), len(services)+1)
}

// TestDeskHasOnePodAndNoSecret checks that two pods never serve at once, because each rejects the
// sessions of the other, and that a page can only do what the operator token of its visitor allows.
func TestDeskHasOnePodAndNoSecret(t *testing.T) {
	desk := named[*appsv1.Deployment](t, rendered(t, withDesk()), "opportunity-desk")
	require.EqualValues(t, 1, *desk.Spec.Replicas)
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, desk.Spec.Strategy.Type)
	c := desk.Spec.Template.Spec.Containers[0]
	require.Empty(t, c.EnvFrom)
	require.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "483183820"}}, c.Env)
	require.Equal(t, []string{
		"desk", "--listen=:8082", "--public-url=https://desk.example.com",
		"--admin-url=http://opportunity-gateway-admin:8081",
	}, c.Args)
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, "/readyz", probe.HTTPGet.Path)
		require.Equal(t, c.Ports[0].Name, probe.HTTPGet.Port.String())
	}
}

func TestHelmTestMakesCallsByDefault(t *testing.T) {
	test := podOf(t, rendered(t, with("test.secretName", "robot")), "Pod opportunity-test")
	require.Contains(t, test.container.Args, "--calls")
	require.Equal(t, "robot", test.container.Env[1].ValueFrom.SecretKeyRef.Name)
	require.NotEmpty(t, test.environment["OPPORTUNITY_ACTOR"], "the command issues no key without a name for the audit log")
	quiet := podOf(t, rendered(t, with("test.calls", false)), "Pod opportunity-test").container
	require.NotContains(t, quiet.Args, "--calls")
	require.Empty(t, quiet.Env)
}
