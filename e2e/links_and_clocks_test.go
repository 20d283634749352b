package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// link is a proxy on the way from one service to another or to a store. It fails as a network does.
type link struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

var toxics = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())

func newLink(t testing.TB, server string) *link {
	t.Helper()
	l := &link{t, toxiproxy.NewProxy(toxics, server, storetest.FreeAddress(t), server)}
	require.NoError(t, l.proxy.Start())
	t.Cleanup(l.proxy.Stop)
	return l
}

// address returns the address for the client of the link.
func (l *link) address() string { return l.proxy.Listen }

// cut closes the open connections and rejects new ones.
func (l *link) cut() { l.proxy.Stop() }

// loseRequests drops what the client sends. Connections stay open.
func (l *link) loseRequests() {
	l.add(`{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
}

// loseResponses drops what the server sends. Connections stay open.
func (l *link) loseResponses() {
	l.add(`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// delay delays each response.
func (l *link) delay(by time.Duration) {
	l.add(fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, by.Milliseconds()))
}

func (l *link) add(toxic string) {
	l.t.Helper()
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
	require.NoError(l.t, err)
}

// repair ends every fault. Connections that lost data are closed.
func (l *link) repair() {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(context.Background())
	if !l.proxy.Enabled {
		storetest.AwaitForks()
		require.NoError(l.t, l.proxy.Start())
	}
}
