package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// moveRedisClock sets the difference between the clock of Redis and the right one.
func (s *stack) moveRedisClock(t testing.TB, by time.Duration) {
	t.Helper()
	setClock(t, s.clock, by)
	require.InDelta(t, by.Minutes(), time.Until(s.redis.Client().Time(t.Context()).Val()).Minutes(), 1)
}

// setClock writes the file of a clock. Programs read it at any time, so it always has the same
// length and is never empty.
func setClock(t testing.TB, file string, by time.Duration) {
	t.Helper()
	f := storetest.Must(os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600))(t)
	defer f.Close()
	_, err := fmt.Fprintf(f, "%011d", int(by.Seconds()))
	require.NoError(t, err)
}

// clockLibrary builds the library that moves the clock of a program.
var clockLibrary = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	library := filepath.Join(dir, "clock.so")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-o", library, "clock/clock.c").CombinedOutput() //nolint:noctx // shared by all tests
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return library, nil
})

// clockGateway builds the gateway with a clock that tests set. Go programs read the clock without
// the C library.
var clockGateway = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "clock", "gateway"), goBuild(".", filepath.Join(dir, "clock"), "./clock/testdata/gateway")
})

func (s *stack) program(t testing.TB, name string) string {
	t.Helper()
	if name != "gateway" || s.clocks == nil {
		return program(t, name)
	}
	return storetest.Must(clockGateway())(t)
}

func (s *stack) clockSettings(gateway int) []string {
	if s.clocks == nil {
		return nil
	}
	return []string{"CLOCK_OFFSET_FILE=" + s.clock, "CLOCK_OFFSET=" + s.clocks[gateway].String()}
}
