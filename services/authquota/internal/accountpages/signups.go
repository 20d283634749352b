package accountpages

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/services/authquota/internal/people"
)

// signUps counts the forms to sign up.
type signUps struct {
	forms *prometheus.CounterVec

	mu       sync.Mutex
	hour     time.Time
	networks map[string]int // in that hour; each form takes the time of a mail, which bounds their number
}

func newSignUps() *signUps {
	s := &signUps{forms: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authquota_sign_ups_total",
		Help: "Forms to sign up by outcome: mailed, limited (too many for the address or from the network: no mail).",
	}, []string{"outcome"})}
	s.forms.WithLabelValues("mailed") // create the series
	s.forms.WithLabelValues("limited")
	return s
}

func (s *signUps) count(mailed bool, from string, now time.Time) {
	outcome := "limited"
	if mailed {
		outcome = "mailed"
	}
	s.forms.WithLabelValues(outcome).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	s.networks[people.NetworkOf(from)]++
}

func (s *signUps) begin(now time.Time) {
	if hour := now.Truncate(time.Hour); !hour.Equal(s.hour) {
		s.hour, s.networks = hour, map[string]int{}
	}
}

// largest returns the forms of the network with the most in the hour of now.
func (s *signUps) largest(now time.Time) (most float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	for _, n := range s.networks {
		most = max(most, float64(n))
	}
	return most
}

// Collectors returns the metrics of the pages.
func (p *Pages) Collectors() []prometheus.Collector {
	return []prometheus.Collector{p.signUps.forms, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_sign_ups_largest_network",
		Help: "Forms to sign up that this process got from one network, /24 or /48, since the hour began: the most of any.",
	}, func() float64 { return p.signUps.largest(p.Now()) })}
}
