package edge

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/gateway/internal/admission"
	"opportunity.internal/services/gateway/internal/authn"
)

// maxAttempts bounds how often one request resolves its key. A third attempt requires two changes of the account in between.
const maxAttempts = 3

// authenticate resolves the key and stores its principal in c, also with some errors.
func (e *Edge) authenticate(r *http.Request, key authn.Key, c *call) error {
	p, err := e.Keys.Resolve(r.Context(), key, e.client(r))
	if p != nil {
		c.caller, c.end.tier = p, p.Tier
	}
	if err != nil {
		return upstream{err}
	}
	return nil
}

// admit asks the limiter for a decision on a call of the principal in c, and stores it in c. If the limiter finds the cached principal
// outdated, or another Redis has decided than the one of its epoch, admit resolves the key again. So a change at authquota applies to the
// next request, also if a failover of Redis has undone its epoch.
func (e *Edge) admit(r *http.Request, key authn.Key, c *call) error {
	ctx := r.Context()
	for attempt := range maxAttempts {
		if attempt > 0 {
			if err := e.authenticate(r, key, c); err != nil {
				return err
			}
		}
		p := c.caller
		if p.Suspended {
			current, err := e.Limiter.Current(ctx, p.Principal)
			if err != nil {
				e.meters.decided(admission.Decision{}, err, p.Tier)
				return err
			}
			if current && e.Keys.InTerm(p) {
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
		if e.Keys.InTerm(p) && charge.Verdict != admission.Outdated {
			c.charge = charge
			return nil
		}
		if charge.Verdict == admission.Admitted {
			c.charge = charge
			e.refund(r, c)
			c.charge = admission.Decision{}
		}
		e.Keys.Forget(p)
	}
	return problem.Unavailable(fmt.Errorf("principal outdated after %d attempts: account keeps changing", maxAttempts))
}

// strip removes the caller's request id, and its X-Forwarded and trace headers unless a trusted proxy sent them. A stranger could
// otherwise join traces, or force each of its calls to be recorded. Identity headers need no removal, because package proxy builds
// upstream requests from a list of allowed headers.
func (e *Edge) strip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.trusts(remote(r)) {
			maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
				return strings.HasPrefix(name, "X-Forwarded-") || name == "Traceparent" || name == "Tracestate" || name == "Baggage"
			})
		}
		delete(r.Header, api.RequestIDHeader)
		next.ServeHTTP(w, r)
	})
}

// client returns the client address: the nearest one that is not a trusted proxy.
func (e *Edge) client(r *http.Request) netip.Addr {
	from := remote(r)
	if r.Header["X-Forwarded-For"] == nil { // as for most requests; the rest allocates
		return from
	}
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
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // set by the server; if it is malformed, the zero address is not trusted
	return from.Addr()
}
