package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestServicesUseTLS checks that all calls between services use https, with the certificates of the
// Secrets, and that probes do not.
func TestServicesUseTLS(t *testing.T) {
	for name, secret := range map[string]string{"": "opportunity-%-tls", "all-tls": "all-tls"} {
		all := rendered(t, set(with("tls.mode", "required"), "tls.secretName", name))
		for _, p := range pods(all) {
			for name, value := range p.environment {
				require.NotRegexp(t, `^http://opportunity-`, value, "%s of %s", name, p.owner)
			}
			if !p.serves {
				require.Len(t, p.spec.Volumes, 1, "%s calls no service", p.owner)
				continue
			}
			volume, mount := p.spec.Volumes[len(p.spec.Volumes)-1], p.container.VolumeMounts[len(p.container.VolumeMounts)-1]
			require.Equal(t, strings.Replace(secret, "%", p.container.Name, 1), volume.Secret.SecretName)
			require.EqualValues(t, 0o440, *volume.Secret.DefaultMode)
			require.Equal(t, corev1.VolumeMount{Name: volume.Name, MountPath: "/etc/opportunity/tls", ReadOnly: true}, mount)
			require.Equal(t, mount.MountPath+"/ca.crt", p.environment["OPPORTUNITY_PEER_CA_FILE"])
			certificate, key := mount.MountPath+"/tls.crt", mount.MountPath+"/tls.key"
			if p.container.Name == "gateway" {
				require.Equal(t, []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}, volume.Secret.Items)
				certificate, key = "", ""
			}
			require.Equal(t, certificate, p.environment["OPPORTUNITY_TLS_CERT_FILE"])
			require.Equal(t, key, p.environment["OPPORTUNITY_TLS_KEY_FILE"])
			require.Empty(t, p.container.ReadinessProbe.HTTPGet.Scheme, "the operations port uses plain HTTP")
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
		catalog := podOf(t, all, "Deployment opportunity-catalog").environment
		gateway := podOf(t, all, "Deployment opportunity-gateway").environment
		require.Equal(t, want.certificate, catalog["OPPORTUNITY_TLS_CERT_FILE"] != "", mode)
		require.Equal(t, want.certificate && want.plain, catalog["OPPORTUNITY_TLS_ACCEPT_PLAINTEXT"] == "true", mode)
		require.Equal(t, want.scheme+"://opportunity-catalog:8080", gateway["OPPORTUNITY_CATALOG_URL"])
		require.Equal(t, want.scheme == "https", gateway["OPPORTUNITY_PEER_CA_FILE"] != "", mode)
		require.NotContains(t, gateway, "OPPORTUNITY_TLS_ACCEPT_PLAINTEXT")
	}
}
