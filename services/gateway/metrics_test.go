package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/services/gateway"
)

// Metrics have labels for route, outcome and tier, never for account or key.
func TestMetrics(t *testing.T) {
	w := newEnvironment(t)
	gw := w.start(func(cfg *gateway.Config) { cfg.ServiceCapacity = 4 })
	tier := func(tier api.Tier) func(*api.Principal) { return func(p *api.Principal) { p.Tier = tier } }
	key := w.authquota.issue("acc_a", developer, tier(api.Developer))
	narrow := w.authquota.issue("acc_b", api.Limits{PerMinute: 1, PerDay: 10, PageSize: 10}, tier(api.Free))
	short := w.authquota.issue("acc_c", api.Limits{PerMinute: 10, PerDay: 0, PageSize: 10}, tier(api.Free))
	suspended := w.authquota.issue("acc_d", developer, tier(api.Commercial), func(p *api.Principal) { p.Suspended = true })
	w.catalog.respondWith(nil)

	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, 200, gw.get(t, narrow).status)
	require.Equal(t, "minute_limit_reached", gw.get(t, narrow).code(t))
	require.Equal(t, "daily_limit_reached", gw.get(t, short).code(t))
	require.Equal(t, "account_suspended", gw.get(t, suspended).code(t))
	require.Equal(t, 401, gw.get(t, apikey.Generate(apikey.Live)).status)
	w.catalog.respondWith(respond(500, "{}"))
	require.Equal(t, 500, gw.get(t, key).status)
	w.catalog.respondWith(nil)
	require.Equal(t, 404, gw.do(t, request{path: "/nothing"}).status)
	require.Equal(t, 405, gw.do(t, request{path: "/docs", method: http.MethodPost}).status)
	require.Equal(t, 200, gw.get(t, key).status)
	require.Equal(t, "service_capacity_reached", gw.get(t, key).code(t))

	text := w.metrics()
	for _, line := range []string{
		`gateway_requests_total{outcome="served",route="/api/v1/opportunities",tier="developer"} 3`,
		`gateway_requests_total{outcome="refused",route="/api/v1/opportunities",tier="free"} 2`,
		`gateway_requests_total{outcome="refused",route="unmatched",tier="none"} 1`,
		`gateway_request_duration_seconds_bucket{outcome="served",route="/api/v1/opportunities",le="10"} 4`,
		`gateway_admissions_total{decision="admitted",tier="developer"} 4`,
		`gateway_service_capacity_requests 4`,
		`gateway_service_capacity_used_ratio 1`,
		`gateway_key_cache_requests_total{result="hit"} 5`,
		`gateway_key_cache_requests_total{result="miss"} 5`,
		`gateway_key_lookups_total{outcome="found",reason="miss"} 4`,
		`gateway_known_keys 4`,
		`gateway_key_cache_entries 4`,
		`opportunity_service_info{service="gateway"} 1`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	require.Contains(t, text, "\ngateway_unknown_keys_rejected_total ")
	require.Contains(t, text, `feed_lag_seconds{feed="keys"}`)
	require.Contains(t, text, "\ngateway_redis_clock_offset_seconds ")
	require.NotContains(t, text, "acc_")

	w.redis.Stop()
	for range 3 {
		require.Equal(t, 503, gw.get(t, key).status)
	}
	require.Contains(t, w.metrics(), `gateway_admissions_total{decision="undecided",tier="developer"} 3`)
	require.Contains(t, w.metrics(), `redis_command_duration_seconds_count{command="evalsha",outcome="failed"}`)
}
