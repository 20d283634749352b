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

// wireServer is Azure's metadata server. Its address is in none of the reserved ranges.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// maxHeaders limits the response headers, in bytes.
const maxHeaders = 128 << 10

// NewTransport returns the transport of a checker. It checks every address after name resolution,
// as it dials, which makes DNS rebinding useless. It uses no proxy, because it would check the
// proxy's address instead of the target's. Each connection serves one HTTP/1.1 request, so closing
// the connection ends the download.
func NewTransport(cfg Config) (http.RoundTripper, error) {
	denied, err := config.Prefixes(cfg.RefusedNetworks)
	if err != nil {
		return nil, err
	}
	allowed, err := config.Prefixes(cfg.AllowedNetworks)
	if err != nil {
		return nil, err
	}
	denied = append(denied, wireServer)
	guard := ssrf.New(
		ssrf.WithPorts(cfg.Ports...),
		ssrf.WithDeniedV4Prefixes(family(denied, true)...), ssrf.WithDeniedV6Prefixes(family(denied, false)...),
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
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaders,
		TLSHandshakeTimeout:    min(cfg.Timeout, 10*time.Second),
	}, nil
}

func forbidden(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork)
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
