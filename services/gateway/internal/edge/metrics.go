package edge

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
)

// Values of the label outcome.
const (
	served        = "served"
	rejected      = "refused"        // invalid, over a limit or canceled by the client
	ourFault      = "our_fault"      // failure of the gateway or its Redis
	upstreamFault = "upstream_fault" // failure of a service behind the gateway
)

// Values of the label decision, in addition to the verdicts and the codes of the limits.
const (
	suspended = "suspended" // account suspended, confirmed by its epoch
	undecided = "undecided" // no decision could be made: 503
)

// Values for requests without a route or tier.
const (
	unmatched = "unmatched" // no operation
	noTier    = "none"      // unknown caller, or a route without keys
)

// meters are the metrics of the public listener. Label values never come from the caller.
type meters struct {
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	admissions *prometheus.CounterVec
}

func newMeters(registry prometheus.Registerer, routes []route) meters {
	m := meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total",
			Help: "Requests on the public listener by route, tier of the caller (none if unknown) and " +
				"outcome: served, refused (invalid or over a limit), our_fault (the gateway or its Redis), upstream_fault.",
		}, []string{"route", "outcome", "tier"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gateway_request_duration_seconds",
			Help: "Time from the request headers to the end of the response, by route and outcome.",
			// the latency objective needs a bucket at its limit
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "outcome"}),
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_admissions_total",
			Help: "Decisions on API requests by tier: admitted, the code of the exceeded limit, " +
				"suspended, epoch (cached account outdated, retried), undecided (no decision possible, 503).",
		}, []string{"decision", "tier"}),
	}
	registry.MustRegister(m.requests, m.durations, m.admissions)
	m.init(routes)
	return m
}

// init creates the series that alerts and their rules use: rate() ignores the first increment of a
// series that did not exist before.
func (m meters) init(routes []route) {
	for _, r := range routes {
		m.durations.WithLabelValues(string(r.operation), served)
		for _, outcome := range []string{served, rejected, ourFault, upstreamFault} {
			m.requests.WithLabelValues(string(r.operation), outcome, noTier)
			for _, tier := range api.Tiers {
				if r.access == keyed {
					m.requests.WithLabelValues(string(r.operation), outcome, string(tier.Tier))
				}
			}
		}
	}
	for _, tier := range api.Tiers {
		for _, decision := range []string{
			string(admission.Admitted), string(admission.Outdated), suspended, undecided,
			string(problem.MinuteLimitReached), string(problem.DailyLimitReached),
			string(problem.ServiceCapacityReached),
		} {
			m.admissions.WithLabelValues(decision, string(tier.Tier))
		}
	}
}

func (m meters) observe(x *exchange) {
	m.requests.WithLabelValues(string(x.operation), x.outcome, string(x.tier())).Inc()
	m.durations.WithLabelValues(string(x.operation), x.outcome).Observe(time.Since(x.since).Seconds())
}

func (m meters) decided(d admission.Decision, err error, tier api.Tier) {
	decision := string(d.Verdict)
	switch {
	case err != nil:
		decision = undecided
	case d.Verdict == admission.Rejected:
		decision = string(d.Limit())
	}
	m.admissions.WithLabelValues(decision, string(tier)).Inc()
}
