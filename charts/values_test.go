package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInvalidValuesAreRejected checks that the message names the value and what was expected.
func TestInvalidValuesAreRejected(t *testing.T) {
	for _, valid := range []values{
		least(), with("secretsRevision", 2), with("publicURL", "http://localhost:8080"), with("publicURL", "https://example.com/data"),
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
		{"mailFrom", "nobody", `mailFrom must be an address, or a name and the address in angle brackets, such as Data <no-reply@example.com>, not "nobody"`},
		{"gatway.replicas", 2, "additional properties 'gatway' not allowed"},
		{"gateway.replica", 2, "at '/gateway': additional properties 'replica' not allowed"},
		{"gateway.replicas", 0, "at '/gateway/replicas': minimum: got 0, want 1"},
		{"gateway.replicas", "two", "at '/gateway/replicas': got string, want integer"},
		{"gateway.migrateSecretName", "x", "at '/gateway': additional properties 'migrateSecretName' not allowed"},
		{"gateway.enabled", false, "at '/gateway': additional properties 'enabled' not allowed"},
		{"gateway.service.type", "ExternalName", "at '/gateway/service/type': value must be one of 'ClusterIP', 'LoadBalancer', 'NodePort'"},
		{"gateway.service.port", 70000, "at '/gateway/service/port': maximum"},
		{"gateway.env.OPPORTUNITY_SERVICE_CAPACITY", 5, "at '/gateway/env/OPPORTUNITY_SERVICE_CAPACITY': got number, want string"},
		{"gateway.env.OPPORTUNITY_SERVICE_CAPACTY", "5", "gateway.env.OPPORTUNITY_SERVICE_CAPACTY is not a setting: docs/configuration.md lists them"},
		{"env.OPPORTUNITY_LOGLEVEL", "DEBUG", "env.OPPORTUNITY_LOGLEVEL is not a setting"},
		{"catalog.env.OPPORTUNITY_SERVICE_CAPACITY", "5", "catalog.env.OPPORTUNITY_SERVICE_CAPACITY has no effect: it is a setting of gateway"},
		{"gateway.env.PATH", "/", "at '/gateway/env': additional properties 'PATH' not allowed"},
		{"gateway.env.OPPORTUNITY_ADMIN_LISTEN", ":8080", "gateway.env.OPPORTUNITY_ADMIN_LISTEN is set by the chart itself: take it out"},
		{"authquota.env.OPPORTUNITY_TERMS_VERSION", "2", "authquota.env.OPPORTUNITY_TERMS_VERSION must be env.OPPORTUNITY_TERMS_VERSION"},
		{"env.OPPORTUNITY_SHUTDOWN_GRACE", "0s", "env.OPPORTUNITY_SHUTDOWN_GRACE is set by the chart itself"},
		{"gateway.resources.limit", values{}, "at '/gateway/resources': additional properties 'limit' not allowed"},
		{"catalog.autoscaling.targetCPUPercent", 101, "at '/catalog/autoscaling/targetCPUPercent': maximum: got 101, want 100"},
		{"catalog.autoscaling", values{"enabled": true, "maxReplicas": 1}, "catalog.autoscaling.maxReplicas (1) must not be below minReplicas (2)"},
		{"catalog.secretName", "Not A Name", "at '/catalog/secretName': 'Not A Name' does not match pattern"},
		{"history.checkLinks.schedule", "hourly", "at '/history/checkLinks/schedule': 'hourly' does not match pattern"},
		{"history.checkLinks.ports", []any{}, "at '/history/checkLinks/ports': minItems: got 0, want 1"},
		{"billing.enabled", "no", "at '/billing/enabled': got string, want boolean"},
		{"billing.env.OPPORTUNITY_STRIPE_PRICE", "", "billing.env.OPPORTUNITY_STRIPE_PRICE is missing"},
		{"desk.enabled", true, "at '/desk/publicURL': minLength: got 0, want 1"},
		{"desk.publicURL", "https://desk.example.com/", "at '/desk/publicURL': 'https://desk.example.com/' does not match pattern"},
		{"desk.publicURL", "http://desk.example.com", "at '/desk/publicURL'"},
		{"desk.replicas", 2, "at '/desk': additional properties 'replicas' not allowed"},
		{"shutdown.graceSeconds", 0, "at '/shutdown/graceSeconds': minimum: got 0, want 1"},
		{"image.pullPolicy", "Sometimes", "at '/image/pullPolicy': value must be one of"},
		{"image.registry", "registry.example.com/", "at '/image/registry'"},
		{"telemetry.endpoint", "otel-collector:4318", "at '/telemetry/endpoint'"},
		{"httpRoute.enabled", true, "at '/httpRoute/parentRefs': minItems: got 0, want 1"},
		{"networkPolicy.clusterRanges", []any{"10.0.0.1"}, "at '/networkPolicy/clusterRanges/0': '10.0.0.1' does not match pattern"},
		{"networkPolicy.postgres.peers", []any{values{}}, "at '/networkPolicy/postgres/peers/0': minProperties"},
		{"networkPolicy.postgres.peers", []any{values{"podselector": values{}}}, "additional properties 'podselector' not allowed"},
		{"networkPolicy.redis.ports", []any{"redis"}, "at '/networkPolicy/redis/ports/0': got string, want integer"},
		{"podLabels.n", 1, "at '/podLabels/n': got number, want string"},
	} {
		_, err := render(t, with(c.path, c.value))
		require.ErrorContains(t, err, c.message, "%s: %v", c.path, c.value)
	}
}
