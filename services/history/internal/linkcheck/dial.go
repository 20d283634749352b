package linkcheck

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"

	"opportunity.internal/pkg/config"
)

// wireServer is the address at which Azure serves metadata to its machines; it is in none of the reserved ranges.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// maxHeaders bounds the headers of an answer, in bytes.
const maxHeaders = 128 << 10

// NewTransport makes the connections of a checker. Every address is judged when it is dialled, after its name was resolved, so
// a name that resolves differently the second time gains nothing. No proxy is asked: it would be judged in place of its target.
// A connection serves one request, in HTTP/1.1: to close it is to stop reading, however much is still to come.
func NewTransport(cfg Config) (http.RoundTripper, error) {
	refused, err := config.Prefixes(cfg.RefusedNetworks)
	if err != nil {
		return nil, err
	}
	allowed, err := config.Prefixes(cfg.AllowedNetworks)
	if err != nil {
		return nil, err
	}
	refused = append(refused, wireServer)
	guard := ssrf.New(
		ssrf.WithPorts(cfg.Ports...),
		ssrf.WithDeniedV4Prefixes(family(refused, true)...), ssrf.WithDeniedV6Prefixes(family(refused, false)...),
		ssrf.WithAllowedV4Prefixes(family(allowed, true)...), ssrf.WithAllowedV6Prefixes(family(allowed, false)...),
	)
	dialer := &net.Dialer{Timeout: cfg.Timeout, KeepAlive: -1, Control: guard.Safe, Resolver: cfg.Resolver}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		Protocols:              protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true, // nothing is unpacked
		MaxResponseHeaderBytes: maxHeaders,
		TLSHandshakeTimeout:    min(cfg.Timeout, 10*time.Second),
	}, nil
}

// forbidden reports whether err says that an address was not dialled because of what it is.
func forbidden(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) || errors.Is(err, ssrf.ErrProhibitedNetwork)
}

func family(all []netip.Prefix, four bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		if p.Addr().Is4() == four {
			out = append(out, p)
		}
	}
	return out
}
