package edge

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/route"
)

// How requests end, in the metrics.
const (
	served        = "served"
	refused       = "refused"        // the request was wrong, or one too many, or its sender left
	ourFault      = "our_fault"      // the gateway or its Redis
	upstreamFault = "upstream_fault" // a service behind it
)

// What admission may come to, in the metrics, beside the codes of the limits that refuse.
const (
	suspended = "suspended" // the account is, and the gateway's knowledge of it up to date
	undecided = "undecided" // nobody could say: the caller is told 503
)

// Values where a request has none of its own.
const (
	unmatched = "unmatched" // it took no route
	noTier    = "none"      // nobody knows whose it is, or nobody needs to
)

// meters are the metrics of the public listener. Their labels are words of ours, never what a caller sent.
type meters struct {
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	admissions *prometheus.CounterVec
}

func newMeters(registry prometheus.Registerer) meters {
	m := meters{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total", Help: "Requests of the public listener by route, the tier of the caller where it is known, " +
				"and how they ended: served, refused (wrong, or one too many), our_fault (the gateway or its Redis), upstream_fault.",
		}, []string{"route", "outcome", "tier"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gateway_request_duration_seconds", Help: "Time from the head of a request to the end of its answer, by route and outcome.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, // the objective for latency stands on one of them
		}, []string{"route", "outcome"}),
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_admissions_total", Help: "Decisions on calls of the API by tier: admitted, the code of the limit that refuses, " +
				"suspended, epoch (asked again with newer knowledge of the account), undecided (nobody could say; the call got 503).",
		}, []string{"decision", "tier"}),
	}
	registry.MustRegister(m.requests, m.durations, m.admissions)
	m.begin()
	return m
}

// begin makes the series that alerts compute with: the first of a series that comes into being with it is in no rate.
func (m meters) begin() {
	for _, to := range route.Operations {
		for _, outcome := range []string{served, refused, ourFault, upstreamFault} {
			m.requests.WithLabelValues(string(to), outcome, noTier)
		}
	}
	for _, tier := range api.Tiers {
		for _, to := range []route.Operation{route.List, route.Alias, route.Detail, route.History} {
			for _, outcome := range []string{served, refused, ourFault, upstreamFault} {
				m.requests.WithLabelValues(string(to), outcome, string(tier.Tier))
			}
		}
		for _, decision := range []string{
			string(admission.Admitted), string(admission.Outdated), suspended, undecided,
			string(problem.MinuteLimitReached), string(problem.DailyLimitReached), string(problem.ServiceCapacityReached),
		} {
			m.admissions.WithLabelValues(decision, string(tier.Tier))
		}
	}
}

// ended is what the metrics need to know of a request.
type ended struct {
	route route.Operation
	tier  api.Tier
	since time.Time
}

func (m meters) ended(end *ended, outcome string) {
	m.requests.WithLabelValues(string(end.route), outcome, string(end.tier)).Inc()
	m.durations.WithLabelValues(string(end.route), outcome).Observe(time.Since(end.since).Seconds())
}

func (m meters) decided(d admission.Decision, err error, tier api.Tier) {
	decision := string(d.Verdict)
	switch {
	case err != nil:
		decision = undecided
	case d.Verdict == admission.Refused:
		decision = string(d.Limit())
	}
	m.admissions.WithLabelValues(decision, string(tier)).Inc()
}
