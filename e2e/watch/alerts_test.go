package watch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"opportunity.internal/e2e/watch"
)

// minutes is the length of all series, which have a value for each minute and end now.
const minutes = 4 * 24 * 60

// growing returns the values of a counter that was 0 until some minutes ago, and has grown since.
func growing(perMinute float64, since int) string {
	return fmt.Sprintf("0x%d 0+%gx%d", minutes-1-since, perMinute, since)
}

const ever = minutes - 1

// fires reports whether an alert fires now. Each line of series has a metric and its values in the
// notation of Prometheus' unit tests; a single value holds for ever, and one with a sign is the
// growth per minute of a counter.
func fires(t *testing.T, series, alert, severity string) bool {
	t.Helper()
	var all []storage.Series
	for line := range strings.Lines(series) {
		metric, values, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(values, "+") {
			values = "0" + values
		}
		if !strings.Contains(values, "x") {
			values += fmt.Sprintf("x%d", minutes)
		}
		described, sequence, err := watch.Parser.ParseSeriesDesc(metric + " " + values)
		require.NoError(t, err)
		one := promql.Series{Metric: described}
		for i, v := range sequence {
			one.Floats = append(one.Floats, promql.FPoint{T: int64(i) * 60_000, F: v.Value})
		}
		all = append(all, promql.NewStorageSeries(one))
	}
	queryable := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
	) storage.SeriesSet {
		return &set{slices.DeleteFunc(slices.Clone(all), func(one storage.Series) bool {
			return !labels.Selector(matchers).Matches(one.Labels())
		}), -1}
	}}}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, Parser: watch.Parser})
	defer engine.Close()
	query, err := engine.NewInstantQuery(t.Context(), queryable, nil, expression(t, alert, severity),
		time.Unix(minutes*60, 0))
	require.NoError(t, err)
	defer query.Close()
	result, err := query.Exec(t.Context()).Vector()
	require.NoError(t, err, "%s %s", alert, severity)
	return len(result) > 0
}

// set is an iterator over series.
type set struct {
	all []storage.Series
	at  int
}

func (s *set) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *set) At() storage.Series              { return s.all[s.at] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// In each case, calls are admitted at a constant rate, and a share of them has failed for some
// minutes.
func TestAvailabilityAlertsFire(t *testing.T) {
	for name, c := range map[string]struct {
		share             float64
		since             int
		critical, warning bool
	}{
		"within the objective for ever":        {0.0009, ever, false, false},
		"just above it for ever":               {0.0013, ever, false, true},
		"four times the budget for a day":      {0.004, 25 * 60, false, true},
		"seven times the budget for six hours": {0.007, 6*60 + 5, true, false},
		"everything for one minute":            {1, 1, true, false},
		"a few per cent for five minutes":      {0.03, 5, false, false},
		"a few per cent for an hour":           {0.03, 60, true, false},
	} {
		failed := growing(c.share*300, c.since)
		series := `gateway_requests_total{route="/api/v1/opportunities",outcome="served"} +600
			gateway_requests_total{route="/api/v1/opportunities",outcome="refused"} +60000
			gateway_requests_total{route="/api/v1/opportunities",outcome="our_fault"} ` + failed + `
			gateway_requests_total{route="/api/v1/opportunities",outcome="upstream_fault"} ` + failed + `
			gateway_requests_total{route="/docs",outcome="our_fault"} +600`
		require.Equal(t, c.critical, fires(t, series, "OpportunityAvailabilityBurn", "critical"), "%s, critical", name)
		require.Equal(t, c.warning, fires(t, series, "OpportunityAvailabilityBurn", "warning"), "%s, warning", name)
	}
}

// Alerts must not fire for a past outage, even though it is still in the long windows.
func TestAvailabilityAlertsEnd(t *testing.T) {
	for failures, want := range map[string]bool{growing(100, 120): true, "0x5639 0+100x85 8500x34": false} {
		require.Equal(t, want, fires(t, `gateway_requests_total{route="/api/v1/opportunities",outcome="served"} +600
			gateway_requests_total{route="/api/v1/opportunities",outcome="our_fault"} `+failures,
			"OpportunityAvailabilityBurn", "critical"), failures)
	}
}

func TestLatencyAlertsFire(t *testing.T) {
	for slow, want := range map[float64]struct{ critical, warning bool }{
		0.009: {}, 0.013: {warning: true}, 0.2: {critical: true, warning: true},
	} {
		series := fmt.Sprintf(`gateway_request_duration_seconds_count{route="/api/v1/a",outcome="served"} +600
			gateway_request_duration_seconds_bucket{route="/api/v1/a",outcome="served",le="0.25"} +%g
			gateway_request_duration_seconds_bucket{route="/api/v1/a",outcome="served",le="0.5"} +600
			gateway_request_duration_seconds_count{route="/api/v1/a",outcome="upstream_fault"} +600`, // counts as unavailable
			600*(1-slow))
		require.Equal(t, want.critical, fires(t, series, "OpportunityLatencyBurn", "critical"), "%v, critical", slow)
		require.Equal(t, want.warning, fires(t, series, "OpportunityLatencyBurn", "warning"), "%v, warning", slow)
	}
}

// Each alert fires with the first series and not with the second. A series without a name has that
// of the alert's metric.
func TestAlertsFire(t *testing.T) {
	const critical, warning = "critical", "warning"
	for _, c := range []struct{ alert, severity, metric, fires, quiet string }{
		{"SignUpsFromOneNetwork", warning, "authquota_sign_ups_largest_network", "51", "50"},
		{"RedisClockOffset", warning, "gateway_redis_clock_offset_seconds", "-2.1", "-1.9"},
		{"ServiceCapacityNearEnd", warning, "gateway_service_capacity_used_ratio", ".81", ".79"},
		{"ServiceCapacityNearEnd", critical, "gateway_service_capacity_used_ratio", "1", ".99"},
		{"BaseTierCapacityNearEnd", warning, "gateway_base_tier_capacity_used_ratio", ".81", ".79"},
		{"EpochRaisesPending", critical, "authquota_epoch_raises_pending", "1", "0"},
		{"CancelsPending", critical, "authquota_cancels_pending", "1", "0"},
		{"RecordsLeftOut", warning, "catalog_records_left_out", "1", "0"},
		{"LogLag", warning, "history_log_lag_seconds", "301", "299"},
		{"EntitlementsPending", critical, "billing_entitlements_pending", "1", "0"},
		{"SnapshotOld", critical, "catalog_source_age_seconds", `{instance="a"} 1
			{instance="b"} 61`, "59"},
		{"FeedLag", warning, "feed_lag_seconds", `{feed="listings"} 121
			{feed="summaries"} 1`, `{feed="listings"} 26`},
		{"LedgerLag", warning, "authquota_ledger_lag_seconds", "11", `{instance="a"} 11
			{instance="b"} 1`}, // one replica writes the ledger
		{"StoreSetBack", critical, "store_set_back", `{store="catalog"} 0
			{store="history"} 1`, `{store="history"} 0`},
		{"CertificateExpiring", critical, "tls_certificate_renewal_overdue", `{certificate="peer_ca"} 0
			{certificate="server"} 1`, `{certificate="server"} 0`},
		{"UsageLost", warning, "gateway_usage_requests_lost_total", growing(1, 5), "7"},
		{"LoggedRequestsLost", warning, "gateway_logged_requests_lost_total", growing(1, 5), "7"},
		{"WitnessFailing", warning, "history_witness_failures_total", "+1", "9"},
		// the times of the last run: 25 hours ago, never, and 23 hours ago
		{"LinkChecksMissing", warning, "history_link_run_success_timestamp_seconds", "255600", "262800"},
		{"LinkChecksMissing", warning, "history_link_run_success_timestamp_seconds", "0", "262800"},
		{"ListingsStale", warning, "catalog_listings", `{status="verified",instance="a"} 94
			{status="verified",instance="b"} 94
			{status="stale",instance="b"} 6`, `{status="verified",instance="a"} 96
			{status="stale",instance="b"} 4`},
		{"RedisFailing", critical, "redis_command_duration_seconds_count", `{command="evalsha",outcome="answered"} +100
			{command="evalsha",outcome="failed"} +10`, `{command="evalsha",outcome="answered"} +100
			{command="evalsha",outcome="failed"} 0x5600 0+10x149 1490x9`}, // it has recovered
		{"KeyLookupsFailing", critical, "gateway_key_lookups_total", `{reason="refresh",outcome="failed"} +1
			{reason="miss",outcome="found"} +9`, `{reason="refresh",outcome="failed"} 0
			{reason="miss",outcome="unknown"} +9`},
		{"Restarting", warning, "process_start_time_seconds", `{job="history",instance="a"} +.2
			opportunity_service_info{job="history",instance="a"} 1`, `{job="other",instance="a"} +.2
			{job="history",instance="a"} 1
			opportunity_service_info{job="history",instance="a"} 1`},
		{"MemoryNearLimit", warning, "process_resident_memory_bytes", `{job="history",instance="a"} 101
			go_gc_gomemlimit_bytes{job="history",instance="a"} 100
			opportunity_service_info{job="history",instance="a"} 1`, `{job="history",instance="a"} 99
			go_gc_gomemlimit_bytes{job="history",instance="a"} 100
			opportunity_service_info{job="history",instance="a"} 1`},
		{"OutOfMemory", critical, "kube_pod_container_status_last_terminated_reason", `{reason="OOMKilled",pod="p",container="history"} 1
			kube_pod_container_status_restarts_total{pod="p",container="history"} +1
			opportunity_service_info{service="catalog"} 1`, `{reason="Error",pod="p",container="history"} 1
			kube_pod_container_status_restarts_total{pod="p",container="history"} +1
			opportunity_service_info{service="catalog"} 1`},
		{"MailsStuck", warning, "authquota_mails_oldest_age_seconds", `901
			authquota_mails_sent_total 5`, `9000
			authquota_mails_sent_total +1`}, // one recipient rejects mail, others do not
		{"MailsGivenUp", warning, "authquota_mails_failed_total", growing(.1, 60) + `
			authquota_mails_sent_total 5`, growing(.1, 60) + `
			authquota_mails_sent_total +10`},
		{"WebhooksFailing", critical, "billing_webhooks_total", `{outcome="failed"} ` + growing(1, 10), `{outcome="done"} +1
			{outcome="failed"} 4`},
		{"WebhooksFailing", warning, "billing_webhooks_total", `{outcome="done"} +1
			{outcome="bad_signature"} +2`, `{outcome="done"} +2
			{outcome="bad_signature"} +1`},
	} {
		for want, series := range map[bool]string{true: c.fires, false: c.quiet} {
			var named []string
			for line := range strings.Lines(series) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") {
					line = c.metric + line
				} else if line[0] < 'a' {
					line = c.metric + " " + line
				}
				named = append(named, line)
			}
			series = strings.Join(named, "\n")
			require.Equal(t, want, fires(t, series, "Opportunity"+c.alert, c.severity), "%s %s\n%s", c.alert, c.severity, series)
		}
	}
}

// Another installation does not hide the absence of a service, and a removed one has ended an hour
// ago.
func TestAbsentServicesFire(t *testing.T) {
	info := func(namespace, values string, services ...string) (series string) {
		for _, s := range services {
			series += fmt.Sprintf("opportunity_service_info{service=%q,namespace=%q} %s\n", s, namespace, values)
		}
		return series
	}
	all := info("prod", "1", "gateway", "catalog", "history", "authquota", "billing")
	for series, want := range map[string]bool{
		all: false,
		info("prod", "1", "gateway", "catalog", "history", "billing"):                true,
		info("prod", "1", "gateway", "catalog", "history", "authquota"):              true,
		all + info("test", "1", "gateway") + info("test", "1x5700 stale", "catalog"): true,
		all + info("test", "1x5749 stale", "catalog"):                                true,
		all + info("test", "1x5699 stale", "catalog"):                                false,
	} {
		require.Equal(t, want, fires(t, series, "OpportunityServiceAbsent", "critical"), series)
	}
}
