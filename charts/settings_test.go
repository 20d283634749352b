package charts_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// setting is a row of docs/configuration.md.
type setting struct {
	services         []string
	required, secret bool
}

// settings returns the settings in docs/configuration.md, which is generated from the code.
func settings(t *testing.T) map[string]setting {
	t.Helper()
	out := map[string]setting{}
	for _, row := range tableRows(t, "../docs/configuration.md", "OPPORTUNITY_") {
		s := setting{services: strings.Split(row[1], ", "), required: row[2] == "required",
			secret: strings.HasPrefix(row[3], "Secret.")}
		if row[1] == "all" {
			s.services = services
		}
		out[strings.Trim(row[0], "`")] = s
	}
	require.Greater(t, len(out), 30)
	return out
}

// documentedSecrets returns the keys of each service's Secret in docs/operators/kubernetes.md, with
// or without optional ones.
func documentedSecrets(t *testing.T, optional bool) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, row := range tableRows(t, "../docs/operators/kubernetes.md", "OPPORTUNITY_") {
		if !optional && strings.HasPrefix(row[len(row)-1], "Optional:") {
			continue
		}
		for _, service := range strings.Split(row[1], ", ") {
			out[service] = append(out[service], strings.Trim(row[0], "`"))
		}
	}
	return out
}

// tableRows returns the cells of all table rows of a page with a first cell that begins with code
// of that prefix.
func tableRows(t *testing.T, file, prefix string) (out [][]string) {
	t.Helper()
	for line := range strings.Lines(read(t, file)) {
		if strings.HasPrefix(line, "| `"+prefix) {
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
			out = append(out, cells)
		}
	}
	require.NotEmpty(t, out, file)
	return out
}

// TestRequiredSettingsAreSet checks that the chart or the documented Secret sets each required
// setting.
func TestRequiredSettingsAreSet(t *testing.T) {
	all, secrets := settings(t), documentedSecrets(t, true)
	require.ElementsMatch(t, services, keys(secrets), "every service has a Secret")
	for _, p := range pods(rendered(t, least())) {
		service := p.container.Name
		if !p.serves {
			continue
		}
		require.Equal(t, []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "opportunity-" + service},
		}}}, p.container.EnvFrom)
		for name, s := range all {
			if s.required && slices.Contains(s.services, service) {
				require.True(t, slices.Contains(keys(p.environment), name) || slices.Contains(secrets[service], name), "%s lacks %s", service,
					name)
			}
		}
	}
	for service, names := range secrets {
		for _, name := range names {
			require.True(t, all[name].secret, "%s is not a secret", name)
			require.Contains(t, all[name].services, service, name)
		}
		for name, s := range all {
			require.False(t, s.secret && slices.Contains(s.services, service) && !slices.Contains(names, name),
				"%s of %s is not documented", name, service)
		}
	}
}

// TestSettingsExist checks that every variable in the chart is a setting of its service, or a
// standard variable, and that no secret has a value there. decode rejects objects of kind Secret.
func TestSettingsExist(t *testing.T) {
	all := settings(t)
	eachCase(t, func(t *testing.T, manifests []manifest) {
		for _, p := range pods(manifests) {
			for name, value := range p.environment {
				require.False(t, all[name].secret && value != "", "%s has the value of %s", p.owner, name)
				switch setting, known := all[name]; {
				case p.container.Name == "status": // the command, which is not a service
					require.Regexp(t, "^OPPORTUNITY_(OPERATOR_TOKEN|ACTOR)$", name)
				case !strings.HasPrefix(name, "OPPORTUNITY_"):
					require.Regexp(t, `^(OTEL_[A-Z_]+|SSL_CERT_DIR|GOMEMLIMIT)$`, name, p.owner)
				default:
					require.True(t, known, "%s: %s", p.owner, name)
					require.True(t, !p.serves || slices.Contains(setting.services, p.container.Name), "%s: %s", p.owner, name)
				}
			}
		}
	})
	environment := read(t, chartDir+"/templates/_environment.tpl")
	for _, name := range regexp.MustCompile(`OPPORTUNITY_[A-Z_]+`).FindAllString(environment, -1) {
		require.Contains(t, all, name)
	}
}

// TestSecretsInValuesAreRejected sets each secret for one service and for all.
func TestSecretsInValuesAreRejected(t *testing.T) {
	for name, s := range settings(t) {
		if !s.secret {
			continue
		}
		for _, where := range []string{"env", s.services[0] + ".env"} {
			_, err := render(t, with(where+"."+name, "hunter2"))
			require.ErrorContains(t, err, where+"."+name+" is a secret", "the message must have the path")
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

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
