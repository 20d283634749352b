package watch_test

import (
	"github.com/prometheus/prometheus/model/value"
	"math"
	"slices"

	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// growing returns a counter that grew by perMinute until the given time before now.
func growing(perMinute float64, until time.Duration) func(time.Duration) float64 {
	return func(before time.Duration) float64 { return 1e6 - perMinute*max(before, until).Minutes() }
}

// counterSince returns a counter that was 0 until the given time before now, and has grown by
// perMinute since.
func counterSince(perMinute float64, since time.Duration) func(time.Duration) float64 {
	return func(before time.Duration) float64 { return max(0, perMinute*(since-before).Minutes()) }
}

// ended returns a series that was 1 until the given time before now.
func ended(ago time.Duration) func(time.Duration) float64 {
	return func(before time.Duration) float64 {
		if before < ago {
			return math.Float64frombits(value.StaleNaN)
		}
		return 1
	}
}

var installed = []string{"gateway", "catalog", "history", "authquota", "billing"}

// metric is a series by the time before now.
type metric struct {
	value func(time.Duration) float64
	name  string
	pairs []string
}

// running returns the series of services that are scraped.
func running(services ...string) (all []metric) {
	for _, s := range services {
		all = append(all, metric{constant(1), "opportunity_service_info", []string{"service", s}})
	}
	return all
}

func constant(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

const days4 = 4 * 24 * time.Hour

// In each case, calls are admitted at a constant rate, and a share of them has failed for some
// time.
func TestAvailabilityAlertsFire(t *testing.T) {
	for name, c := range map[string]struct {
		share             float64
		since             time.Duration
		critical, warning bool
	}{
		"within the objective for ever":        {0.0009, days4, false, false},
		"just above it for ever":               {0.0013, days4, false, true},
		"four times the budget for a day":      {0.004, 25 * time.Hour, false, true},
		"seven times the budget for six hours": {0.007, 6*time.Hour + 5*time.Minute, true, false},
		"everything for one minute":            {1, time.Minute, true, false},
		"a few per cent for five minutes":      {0.03, 5 * time.Minute, false, false},
		"a few per cent for an hour":           {0.03, time.Hour, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s series
			const calls = 600
			route := []string{"route", "/api/v1/opportunities", "tier", "free", "namespace", "prod", "outcome"}
			s.add(days4, growing(calls, 0), "gateway_requests_total", append(route, "served")...)
			s.add(days4, growing(100*calls, 0), "gateway_requests_total", append(route, "refused")...) // dilutes nothing
			s.add(days4, counterSince(c.share*calls/2, c.since), "gateway_requests_total", append(route, "our_fault")...)
			s.add(days4, counterSince(c.share*calls/2, c.since), "gateway_requests_total", append(route, "upstream_fault")...)
			s.add(days4, growing(calls, 0), "gateway_requests_total", "route", "/docs", "namespace", "prod", "outcome",
				"our_fault") // no call
			require.Equal(t, c.critical, fires(t, s, "OpportunityAvailabilityBurn", "critical"), "critical")
			require.Equal(t, c.warning, fires(t, s, "OpportunityAvailabilityBurn", "warning"), "warning")
		})
	}
}

// Alerts must not fire for a past outage, even though it is still in the long windows.
func TestAvailabilityAlertsEnd(t *testing.T) {
	for still, want := range map[time.Duration]bool{0: true, 35 * time.Minute: false} {
		var s series
		route := []string{"route", "/api/v1/opportunities", "outcome"}
		s.add(days4, growing(600, 0), "gateway_requests_total", append(route, "served")...)
		s.add(2*time.Hour, growing(100, still), "gateway_requests_total", append(route, "our_fault")...)
		require.Equal(t, want, fires(t, s, "OpportunityAvailabilityBurn", "critical"), still)
	}
}

func TestLatencyAlertsFire(t *testing.T) {
	for name, c := range map[string]struct {
		slow              float64
		critical, warning bool
	}{
		"within the objective": {0.009, false, false},
		"just above it":        {0.013, false, true},
		"a fifth is slow":      {0.2, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s series
			of := []string{"route", "/api/v1/opportunities/{id}", "outcome"}
			s.add(days4, growing(600, 0), "gateway_request_duration_seconds_count", append(of, "served")...)
			s.add(days4, growing(600*(1-c.slow), 0), "gateway_request_duration_seconds_bucket",
				append(of, "served", "le", "0.25")...)
			s.add(days4, growing(600, 0), "gateway_request_duration_seconds_bucket", append(of, "served", "le", "0.5")...)
			// counts as unavailable
			s.add(days4, growing(600, 0), "gateway_request_duration_seconds_count", append(of, "upstream_fault")...)
			require.Equal(t, c.critical, fires(t, s, "OpportunityLatencyBurn", "critical"), "critical")
			require.Equal(t, c.warning, fires(t, s, "OpportunityLatencyBurn", "warning"), "warning")
		})
	}
}

// The alert fires at one value of its metric and not at the other.
func TestThresholdsOfAlerts(t *testing.T) {
	for _, c := range []struct {
		alert, severity, metric string
		fires, quiet            float64
	}{
		{"OpportunitySignUpsFromOneNetwork", "warning", "authquota_sign_ups_largest_network", 51, 50},
		{"OpportunityRedisClockOffset", "warning", "gateway_redis_clock_offset_seconds", -2.1, -1.9},
		{"OpportunityServiceCapacityNearEnd", "warning", "gateway_service_capacity_used_ratio", .81, .79},
		{"OpportunityServiceCapacityNearEnd", "critical", "gateway_service_capacity_used_ratio", 1, .99},
		{"OpportunityBaseTierCapacityNearEnd", "warning", "gateway_base_tier_capacity_used_ratio", .81, .79},
		{"OpportunityEpochRaisesPending", "critical", "authquota_epoch_raises_pending", 1, 0},
		{"OpportunityCancelsPending", "critical", "authquota_cancels_pending", 1, 0},
		{"OpportunityRecordsLeftOut", "warning", "catalog_records_left_out", 1, 0},
		{"OpportunityLogLag", "warning", "history_log_lag_seconds", 301, 299},
		{"OpportunityEntitlementsPending", "critical", "billing_entitlements_pending", 1, 0},
	} {
		for _, value := range []float64{c.fires, c.quiet} {
			var s series
			s.add(7*time.Hour, constant(value), c.metric, "namespace", "prod")
			require.Equal(t, value == c.fires, fires(t, s, c.alert, c.severity), "%s at %v", c.alert, value)
		}
	}
}

// Each of the other alerts has cases that fire and cases that do not.
func TestOtherAlertsFire(t *testing.T) {
	ago := func(d time.Duration) func(time.Duration) float64 { return constant(float64(now.Add(-d).Unix())) }
	for _, c := range []struct {
		alert, severity string
		fires           bool
		metrics         []metric
	}{
		{"OpportunityListingsStale", "warning", true, []metric{
			{constant(94), "catalog_listings", []string{"category", "surveys", "status", "verified", "instance", "a"}},
			{constant(94), "catalog_listings", []string{"category", "surveys", "status", "verified", "instance", "b"}},
			{constant(6), "catalog_listings", []string{"category", "surveys", "status", "stale", "instance", "b"}},
		}},
		{"OpportunityListingsStale", "warning", false, []metric{
			{constant(96), "catalog_listings", []string{"category", "surveys", "status", "verified", "instance", "a"}},
			{constant(4), "catalog_listings", []string{"category", "surveys", "status", "stale", "instance", "b"}},
		}},
		{"OpportunityServiceAbsent", "critical", true, running("gateway", "catalog", "history", "billing")},
		{"OpportunityServiceAbsent", "critical", true, running("gateway", "catalog", "history", "authquota")},
		{"OpportunityServiceAbsent", "critical", false, running(installed...)},
		{"OpportunityServiceAbsent", "critical", true, append(running(installed...), // another installation does not hide it
			metric{constant(1), "opportunity_service_info", []string{"service", "gateway", "namespace", "test"}},
			metric{ended(time.Hour), "opportunity_service_info", []string{"service", "catalog", "namespace", "test"}})},
		{"OpportunityServiceAbsent", "critical", true, append(running(installed...), // stopped a moment ago
			metric{ended(10 * time.Minute), "opportunity_service_info", []string{"service", "catalog", "namespace", "test"}})},
		{"OpportunityServiceAbsent", "critical", false, append(running(installed...), // removed
			metric{ended(61 * time.Minute), "opportunity_service_info", []string{"service", "catalog", "namespace", "test"}})},
		{"OpportunityRestarting", "warning", true, []metric{
			{growing(.2, 0), "process_start_time_seconds", []string{"job", "history", "instance", "a"}},
			{constant(1), "opportunity_service_info", []string{"job", "history", "instance", "a"}},
		}},
		{"OpportunityRestarting", "warning", false, []metric{
			{growing(.2, 0), "process_start_time_seconds", []string{"job", "other", "instance", "a"}},
			{constant(1), "process_start_time_seconds", []string{"job", "history", "instance", "a"}},
			{constant(1), "opportunity_service_info", []string{"job", "history", "instance", "a"}},
		}},
		{"OpportunityMemoryNearLimit", "warning", true, []metric{
			{constant(101), "process_resident_memory_bytes", []string{"job", "history", "instance", "a"}},
			{constant(100), "go_gc_gomemlimit_bytes", []string{"job", "history", "instance", "a"}},
			{constant(1), "opportunity_service_info", []string{"job", "history", "instance", "a"}},
		}},
		{"OpportunityMemoryNearLimit", "warning", false, []metric{
			{constant(99), "process_resident_memory_bytes", []string{"job", "history", "instance", "a"}},
			{constant(100), "go_gc_gomemlimit_bytes", []string{"job", "history", "instance", "a"}},
			{constant(1), "opportunity_service_info", []string{"job", "history", "instance", "a"}},
		}},
		{"OpportunityOutOfMemory", "critical", true, []metric{
			{constant(1), "kube_pod_container_status_last_terminated_reason",
				[]string{"reason", "OOMKilled", "pod", "p", "container", "history"}},
			{growing(1, 0), "kube_pod_container_status_restarts_total", []string{"pod", "p", "container", "history"}},
			{constant(1), "opportunity_service_info", []string{"service", "catalog"}},
		}},
		{"OpportunityOutOfMemory", "critical", false, []metric{
			{constant(1), "kube_pod_container_status_last_terminated_reason",
				[]string{"reason", "Error", "pod", "p", "container", "history"}},
			{growing(1, 0), "kube_pod_container_status_restarts_total", []string{"pod", "p", "container", "history"}},
			{constant(1), "opportunity_service_info", []string{"service", "catalog"}},
		}},
		{"OpportunityRedisFailing", "critical", true, []metric{
			{growing(100, 0), "redis_command_duration_seconds_count",
				[]string{"job", "gateway", "command", "evalsha", "outcome", "answered"}},
			{growing(10, 0), "redis_command_duration_seconds_count",
				[]string{"job", "gateway", "command", "evalsha", "outcome", "failed"}},
		}},
		{"OpportunityRedisFailing", "critical", false, []metric{
			{growing(100, 0), "redis_command_duration_seconds_count",
				[]string{"job", "gateway", "command", "evalsha", "outcome", "answered"}},
			{growing(10, 10*time.Minute), "redis_command_duration_seconds_count",
				[]string{"job", "gateway", "command", "evalsha", "outcome", "failed"}},
		}},
		{"OpportunityCertificateExpiring", "critical", true, []metric{
			{constant(0), "tls_certificate_renewal_overdue", []string{"certificate", "peer_ca"}},
			{constant(1), "tls_certificate_renewal_overdue", []string{"certificate", "server"}},
		}},
		{"OpportunityCertificateExpiring", "critical", false,
			[]metric{{constant(0), "tls_certificate_renewal_overdue", []string{"certificate", "server"}}}},
		{"OpportunityKeyLookupsFailing", "critical", true, []metric{
			{growing(1, 0), "gateway_key_lookups_total", []string{"reason", "refresh", "outcome", "failed"}},
			{growing(9, 0), "gateway_key_lookups_total", []string{"reason", "miss", "outcome", "found"}},
		}},
		{"OpportunityKeyLookupsFailing", "critical", false, []metric{
			{growing(0, 0), "gateway_key_lookups_total", []string{"reason", "refresh", "outcome", "failed"}},
			{growing(9, 0), "gateway_key_lookups_total", []string{"reason", "miss", "outcome", "unknown"}},
		}},
		{"OpportunityLedgerLag", "warning", true, []metric{{constant(11), "authquota_ledger_lag_seconds", nil}}},
		{"OpportunityLedgerLag", "warning", false, []metric{ // one replica writes the ledger
			{constant(11), "authquota_ledger_lag_seconds", []string{"instance", "a"}},
			{constant(1), "authquota_ledger_lag_seconds", []string{"instance", "b"}},
		}},
		{"OpportunityUsageLost", "warning", true,
			[]metric{{counterSince(1, 5*time.Minute), "gateway_usage_requests_lost_total", nil}}},
		{"OpportunityUsageLost", "warning", false, []metric{{constant(7), "gateway_usage_requests_lost_total", nil}}},
		{"OpportunityLoggedRequestsLost", "warning", true,
			[]metric{{counterSince(1, 5*time.Minute), "gateway_logged_requests_lost_total", nil}}},
		{"OpportunityLoggedRequestsLost", "warning", false,
			[]metric{{constant(7), "gateway_logged_requests_lost_total", nil}}},
		{"OpportunitySnapshotOld", "critical", true, []metric{ // each replica has its own snapshot
			{constant(1), "catalog_source_age_seconds", []string{"instance", "a"}},
			{constant(61), "catalog_source_age_seconds", []string{"instance", "b"}},
		}},
		{"OpportunitySnapshotOld", "critical", false, []metric{{constant(59), "catalog_source_age_seconds", nil}}},
		{"OpportunityStoreSetBack", "critical", true, []metric{
			{constant(0), "store_set_back", []string{"store", "catalog"}},
			{constant(1), "store_set_back", []string{"store", "history"}},
		}},
		{"OpportunityStoreSetBack", "critical", false,
			[]metric{{constant(0), "store_set_back", []string{"store", "history"}}}},
		{"OpportunityFeedLag", "warning", true, []metric{
			{constant(121), "feed_lag_seconds", []string{"feed", "listings"}},
			{constant(1), "feed_lag_seconds", []string{"feed", "summaries"}},
		}},
		{"OpportunityFeedLag", "warning", false, []metric{{constant(26), "feed_lag_seconds", []string{"feed", "listings"}}}},
		{"OpportunityLinkChecksMissing", "warning", true,
			[]metric{{ago(25 * time.Hour), "history_link_run_success_timestamp_seconds", nil}}},
		{"OpportunityLinkChecksMissing", "warning", true,
			[]metric{{constant(0), "history_link_run_success_timestamp_seconds", nil}}},
		{"OpportunityLinkChecksMissing", "warning", false,
			[]metric{{ago(23 * time.Hour), "history_link_run_success_timestamp_seconds", nil}}},
		{"OpportunityWitnessFailing", "warning", true, []metric{{growing(1, 0), "history_witness_failures_total", nil}}},
		{"OpportunityWitnessFailing", "warning", false, []metric{{constant(9), "history_witness_failures_total", nil}}},
		{"OpportunityMailsStuck", "warning", true, []metric{
			{constant(901), "authquota_mails_oldest_age_seconds", nil},
			{constant(5), "authquota_mails_sent_total", []string{"template", "x"}},
		}},
		{"OpportunityMailsStuck", "warning", false, []metric{ // one recipient rejects mail, others do not
			{constant(9000), "authquota_mails_oldest_age_seconds", nil},
			{growing(1, 0), "authquota_mails_sent_total", []string{"template", "x"}},
		}},
		{"OpportunityMailsGivenUp", "warning", true, []metric{
			{counterSince(.1, time.Hour), "authquota_mails_failed_total", []string{"template", "x"}},
			{constant(5), "authquota_mails_sent_total", []string{"template", "x"}},
		}},
		{"OpportunityMailsGivenUp", "warning", false, []metric{
			{counterSince(.1, time.Hour), "authquota_mails_failed_total", []string{"template", "x"}},
			{growing(10, 0), "authquota_mails_sent_total", []string{"template", "x"}},
		}},
		{"OpportunityWebhooksFailing", "critical", true,
			[]metric{{counterSince(1, 10*time.Minute), "billing_webhooks_total", []string{"outcome", "failed"}}}},
		{"OpportunityWebhooksFailing", "critical", false, []metric{
			{growing(1, 0), "billing_webhooks_total", []string{"outcome", "done"}},
			{constant(4), "billing_webhooks_total", []string{"outcome", "failed"}},
		}},
		{"OpportunityWebhooksFailing", "warning", true, []metric{
			{growing(1, 0), "billing_webhooks_total", []string{"outcome", "done"}},
			{growing(2, 0), "billing_webhooks_total", []string{"outcome", "bad_signature"}},
		}},
		{"OpportunityWebhooksFailing", "warning", false, []metric{
			{growing(2, 0), "billing_webhooks_total", []string{"outcome", "done"}},
			{growing(1, 0), "billing_webhooks_total", []string{"outcome", "bad_signature"}},
		}},
	} {
		var s series
		for _, m := range c.metrics {
			pairs := m.pairs
			if !slices.Contains(pairs, "namespace") {
				pairs = append([]string{"namespace", "prod"}, pairs...)
			}
			s.add(7*time.Hour, m.value, m.name, pairs...)
		}
		require.Equal(t, c.fires, fires(t, s, c.alert, c.severity), "%s %s %v", c.alert, c.severity, c.metrics)
	}
}
