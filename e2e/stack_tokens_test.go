package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
)

// TestRejectedTokensAreNamed gives services wrong tokens for the services that they call. They
// continue to serve, and the status and check name each pair and the settings to compare.
func TestRejectedTokensAreNamed(t *testing.T) {
	t.Parallel()
	s := newStackOn(t, parts{billing: true})
	status := func() (said string, code int) {
		out, errs, code := s.tryVerb(t, "", "status")
		return out + errs, code
	}
	eventually(t, "all services are ready", func() bool { _, code := status(); return code == 0 })
	pairs := map[string]string{
		peer.Catalog: peer.History, peer.History: peer.Catalog, peer.Authquota: peer.Billing, peer.Billing: peer.Authquota,
	}
	fault := func(caller string) string {
		called := pairs[caller]
		return "the token of " + caller + " is rejected: compare " + called + ":... in OPPORTUNITY_PEER_TOKENS of " + caller +
			" with " + caller +
			":... in OPPORTUNITY_CALLER_TOKENS of " + called
	}
	wrong := map[string][]string{}
	for caller, called := range pairs {
		for _, setting := range s.settings[caller] {
			wrong[caller] = append(wrong[caller], strings.ReplaceAll(setting, tokenBetween(caller, called),
				strings.Repeat("x", 32)))
		}
		at := slices.IndexFunc(s.processes, func(p *process) bool { return p.name == caller+" serve" })
		s.processes[at].interrupt(t)
		s.processes[at].wait(t)
		s.processes[at] = start(t, wrong[caller], program(t, caller), "serve")
	}
	for caller, called := range pairs {
		eventually(t, "the status names "+caller+" and "+called, func() bool {
			said, code := status()
			return code != 0 && strings.Contains(said, caller+" to "+called+" ("+fault(caller)+")")
		})
		out, errs, code := run(t, wrong[caller], "", program(t, caller), "check")
		require.NotZero(t, code)
		require.Contains(t, out+errs, fault(caller))
	}
}
