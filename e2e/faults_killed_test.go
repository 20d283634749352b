package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestFaultsKilled kills each service, and one of the gateways, while an operator writes and
// consumers pay: once, or 20 times in a campaign.
func TestFaultsKilled(t *testing.T) {
	t.Parallel()
	times := 1
	if campaign > 0 {
		times = 20
	}
	row := newResult(t, fmt.Sprintf("each service is killed and starts again, %d times", times),
		"no acknowledged revocation, key, tier, event or payment is lost; normal without a repair")
	s, readers := newStackWithReaders(t, parts{billing: true})
	tr, w := s.send(t, rate(), readers), s.startWrites(t)
	tr.succeeds()
	var slowest time.Duration
	for range times {
		for _, service := range []string{"catalog", "history", "authquota", "billing", "gateway"} {
			w.succeeds(t)
			s.process(t, service).kill()
			started := time.Now()
			s.restart(t, service)
			slowest = max(slowest, tr.succeeds().Sub(started))
		}
	}
	w.succeeds(t)
	w.end()
	calls := tr.end()
	s.has(t, w)
	row.set("0 lost of %d keys, %d revocations, %d tiers, %d events and %d payments; %d of %d calls failed; normal at most %.1f s after each start",
		len(w.keys), len(w.revoked), w.granted, len(w.events), len(w.paid), len(calls)-counts(calls)[http.StatusOK],
		len(calls), slowest.Seconds())
}
