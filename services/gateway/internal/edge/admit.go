package edge

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
)

// rounds is how often a principal may turn out to be out of date within one request. More than once takes two changes of one
// account at the same moment.
const rounds = 3

// admit finds out who calls and decides on the call. A decision is made on an up-to-date principal only: the script tells when
// the cached one is not, and then authquota is asked again. So a change at authquota holds from the next request on.
func (e *Edge) admit(r *http.Request, key authn.Key, c *call) error {
	ctx := r.Context()
	for range rounds {
		p, err := e.Keys.Resolve(ctx, key, e.client(r))
		if p != nil {
			c.caller, c.end.tier = p, p.Tier
		}
		if err != nil {
			return upstream{err}
		}
		if p.Suspended {
			current, err := e.Limiter.Current(ctx, p.Principal)
			if err != nil {
				e.meters.decided(admission.Decision{}, err, p.Tier)
				return err
			}
			if current {
				e.meters.decided(admission.Decision{Verdict: suspended}, nil, p.Tier)
				return problem.New(problem.AccountSuspended, "This account is suspended. Contact the operator of the service.")
			}
			e.Keys.Forget(p)
			continue
		}
		charge, err := e.Limiter.Admit(ctx, p.Principal)
		e.meters.decided(charge, err, p.Tier)
		if err != nil {
			return err
		}
		if charge.Verdict != admission.Outdated {
			c.charge = charge
			return nil
		}
		e.Keys.Forget(p)
	}
	return problem.Unavailable(errors.New("the account changes faster than it can be asked for"))
}

// strip removes the request id of a caller, and forwarded addresses unless a trusted proxy sent them. The identity headers of
// services need no removal: the proxy package builds their requests from a list of allowed headers.
func (e *Edge) strip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.trusts(remote(r)) {
			maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Forwarded-") })
		}
		delete(r.Header, api.RequestIDHeader)
		next.ServeHTTP(w, r)
	})
}

// client is the address that a request came from: the nearest one that is not a trusted proxy.
func (e *Edge) client(r *http.Request) netip.Addr {
	from := remote(r)
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0 && e.trusts(from); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		from = hop
	}
	return from
}

func (e *Edge) trusts(addr netip.Addr) bool {
	for _, prefix := range e.Trusted {
		if prefix.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}

func remote(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // the server's own; another form gives the zero address, trusted by nobody
	return from.Addr()
}
