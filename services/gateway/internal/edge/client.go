package edge

import (
	"maps"
	"net/http"
	"net/netip"
	"strings"

	"opportunity.internal/pkg/api"
)

// strip removes the caller's request id, and its X-Forwarded and trace headers unless a trusted
// proxy sent them. A stranger could otherwise join traces, or force each of its calls to be
// recorded. Identity headers need no removal, because package proxy builds upstream requests from a
// list of allowed headers.
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
