package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestServicesUseTLS checks that all calls between services use https, with the certificates of the
// Secrets, and that probes do not.
func TestServicesUseTLS(t *testing.T) {
	for name, secret := range map[string]string{"": "opportunity-%-tls", "all-tls": "all-tls"} {
		all := rendered(t, set(with("tls.mode", "required"), "tls.secretName", name))
		for _, p := range pods(all) {
			for _, e := range p.spec.Containers[0].Env {
				require.NotRegexp(t, `^http://opportunity-`, e.Value, "%s of %s", e.Name, p.owner)
			}
			if !p.serves {
				require.Len(t, p.spec.Volumes, 1, "%s calls no service", p.owner)
			}
		}
		for _, service := range services {
			pod := named[*appsv1.Deployment](t, all, "opportunity-"+service).Spec.Template.Spec
			c, volume := pod.Containers[0], pod.Volumes[len(pod.Volumes)-1]
			require.Equal(t, strings.Replace(secret, "%", service, 1), volume.Secret.SecretName)
			require.EqualValues(t, 0o440, *volume.Secret.DefaultMode)
			mount := c.VolumeMounts[len(c.VolumeMounts)-1]
			require.Equal(t, corev1.VolumeMount{Name: volume.Name, MountPath: "/etc/opportunity/tls", ReadOnly: true}, mount)
			require.Contains(t, c.Env, corev1.EnvVar{Name: "OPPORTUNITY_PEER_CA_FILE", Value: mount.MountPath + "/ca.crt"})
			if service == "gateway" {
				require.Equal(t, []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}, volume.Secret.Items)
				require.NotContains(t, given(podNamed(t, all, service)), "OPPORTUNITY_TLS_CERT_FILE")
			} else {
				require.Contains(t, c.Env, corev1.EnvVar{Name: "OPPORTUNITY_TLS_CERT_FILE", Value: mount.MountPath + "/tls.crt"})
				require.Contains(t, c.Env, corev1.EnvVar{Name: "OPPORTUNITY_TLS_KEY_FILE", Value: mount.MountPath + "/tls.key"})
			}
			for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				require.Equal(t, "operations", probe.HTTPGet.Port.StrVal)
				require.Empty(t, probe.HTTPGet.Scheme, "the operations port uses plain HTTP")
			}
		}
	}
}

// TestTLSIsSwitchedOnInSteps checks that each mode accepts what the modes before and after it send.
func TestTLSIsSwitchedOnInSteps(t *testing.T) {
	for mode, want := range map[string]struct {
		certificate, plain bool
		scheme             string
	}{
		"disabled":  {false, true, "http"},
		"accepted":  {true, true, "http"},
		"preferred": {true, true, "https"},
		"required":  {true, false, "https"},
	} {
		all := rendered(t, with("tls.mode", mode))
		catalog, gateway := environment(podNamed(t, all, "catalog")), environment(podNamed(t, all, "gateway"))
		require.Equal(t, want.certificate, catalog["OPPORTUNITY_TLS_CERT_FILE"] != "", mode)
		require.Equal(t, want.certificate && want.plain, catalog["OPPORTUNITY_TLS_ACCEPT_PLAINTEXT"] == "true", mode)
		require.Equal(t, want.scheme+"://opportunity-catalog:8080", gateway["OPPORTUNITY_CATALOG_URL"])
		require.Equal(t, want.scheme == "https", gateway["OPPORTUNITY_PEER_CA_FILE"] != "", mode)
		require.NotContains(t, gateway, "OPPORTUNITY_TLS_ACCEPT_PLAINTEXT")
	}
}

func podNamed(t *testing.T, all []manifest, service string) pod {
	t.Helper()
	for _, p := range pods(all) {
		if p.owner == "Deployment opportunity-"+service {
			return p
		}
	}
	require.Fail(t, "no pod", service)
	return pod{}
}

// TestMissingCertificatesAreNamed checks the message about the Secrets with certificates. The
// gateway needs no certificate of its own.
func TestMissingCertificatesAreNamed(t *testing.T) {
	err := newCluster(map[string][]string{"opportunity-gateway-tls": {"ca.crt"},
		"opportunity-catalog-tls": {"ca.crt"}}).install(t, with("tls.mode", "required"))
	require.ErrorContains(t, err, "\nopportunity-catalog-tls: tls.crt, tls.key\n")
	require.ErrorContains(t, err, "\nopportunity-history-tls: ca.crt, tls.crt, tls.key\n")
	require.NotContains(t, err.Error(), "opportunity-gateway-tls")
}
