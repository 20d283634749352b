package linkcheck

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"
)

func TestPortOfAnAddress(t *testing.T) {
	for text, want := range map[string]uint16{
		"https://maple.works/": 443, "http://maple.works/": 80, "https://maple.works:80/": 80,
		"http://maple.works:443/":   443,
		"http://maple.works:65536/": 0,
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, port(u), text)
	}
}

func TestLongAddressIsCutInNotes(t *testing.T) {
	base := "http://maple.works/"
	for extra, want := range map[int]string{0: "", 1: "..."} {
		u, err := url.Parse(base + strings.Repeat("a", maxNoteURL-len(base)+extra))
		require.NoError(t, err)
		require.Equal(t, u.String()[:maxNoteURL]+want, noteURL(u))
	}
}

func TestForbiddenAddressesAndPorts(t *testing.T) {
	for _, err := range []error{ssrf.ErrProhibitedIP, ssrf.ErrProhibitedPort, ssrf.ErrProhibitedNetwork} {
		require.True(t, forbidden(fmt.Errorf("dial: %w", err)), err)
	}
	require.False(t, forbidden(net.ErrClosed))
}

// Networks of both IP versions can be allowed. Nothing listens on port 1, so an allowed address
// fails with another error.
func TestAllowedNetworksAreDialed(t *testing.T) {
	for host, network := range map[string]string{"127.0.0.1": "127.0.0.0/8", "[::1]": "::1/128"} {
		for _, allowed := range [][]string{nil, {network}} {
			transport, err := NewTransport(Config{Ports: []uint16{1}, AllowedNetworks: allowed, Timeout: time.Minute})
			require.NoError(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":1/", nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(r)
			require.Error(t, err)
			require.Equal(t, allowed == nil, forbidden(err), err)
		}
	}
}
