package service_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// encrypted is a service with a certificate, which can call itself.
type encrypted struct {
	*servicetest.Service
	clock *servicetest.Clock
	dir   string
	ca    *servicetest.CA
	own   *service.Runtime
	url   string
}

func startEncrypted(t *testing.T, adjust ...func(*certificate.ServerConfig)) *encrypted {
	e := &encrypted{clock: servicetest.NewClock(time.Now()), dir: t.TempDir(), ca: servicetest.NewCA(t)}
	cert, key := e.issue(t)
	e.write(t, "tls.crt", cert)
	e.write(t, "tls.key", key)
	e.write(t, "ca.crt", e.ca.PEM())
	started := make(chan *service.Runtime, 1)
	cfg := newConfig(t, func(r *service.Runtime) error {
		started <- r
		r.Handle(server.ServicePort,
			r.InternalHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })))
		return nil
	})
	cfg.TLS = certificate.ServerConfig{CertFile: filepath.Join(e.dir, "tls.crt"), KeyFile: filepath.Join(e.dir, "tls.key")}
	for _, a := range adjust {
		a(&cfg.TLS)
	}
	cfg.Peers = certificate.PeerConfig{CAFile: filepath.Join(e.dir, "ca.crt")}
	cfg.Now = e.clock.Now
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	e.Service = run(t, cfg)
	e.url = strings.Replace(e.URL, "http:", "https:", 1)
	e.own = <-started
	e.WaitReady()
	return e
}

func (e *encrypted) issue(t *testing.T) (cert, key []byte) {
	t.Helper()
	return e.ca.Issue(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "127.0.0.1")
}

func (e *encrypted) write(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, name), content, 0o600))
}

// TestRotationLosesNoCall replaces the certificate under load, where every call opens a connection,
// first the certificate and then the key.
func TestRotationLosesNoCall(t *testing.T) {
	e := startEncrypted(t)
	transport := e.own.Connections()
	var calls, failed atomic.Int64
	var latest atomic.Pointer[string] // serial number of the certificate of the latest call
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				req, _ := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, e.url, nil)
				req.Close = true
				resp, err := transport.RoundTrip(req)
				calls.Add(1)
				if err != nil {
					failed.Add(1)
					continue
				}
				serial := resp.TLS.PeerCertificates[0].SerialNumber.String()
				latest.Store(&serial)
				_ = resp.Body.Close()
			}
		})
	}
	more := func() {
		n := calls.Load()
		storetest.Eventually(t, "calls", func() bool { return calls.Load() > n+8 })
	}
	for range 5 {
		more()
		before := *latest.Load()
		cert, key := e.issue(t)
		e.write(t, "tls.crt", cert)
		e.clock.Advance(10 * time.Second)
		more()
		require.Equal(t, before, *latest.Load(), "the key does not belong to the new certificate yet")
		e.write(t, "tls.key", key)
		e.clock.Advance(10 * time.Second)
		storetest.Eventually(t, "the new certificate", func() bool { return *latest.Load() != before })
	}
	stop()
	all.Wait()
	require.Zero(t, failed.Load(), "of %d calls", calls.Load())
}

func TestOnlyTheServicePortUsesTLS(t *testing.T) {
	e := startEncrypted(t)
	require.NoError(t, e.own.CheckPeer(t.Context(), peer.History, e.url, peer.Tokens{}))
	require.Equal(t, http.StatusBadRequest, servicetest.Send(t, http.MethodGet, e.URL, nil, nil).Status)
	require.Contains(t, e.Metrics(), `tls_certificate_expiry_timestamp_seconds{certificate="server"`) // over plain HTTP
	require.Contains(t, e.Metrics(), `tls_certificate_expiry_timestamp_seconds{certificate="peer_ca"`)

	e.write(t, "ca.crt", servicetest.NewCA(t).PEM())
	e.clock.Advance(10 * time.Second)
	require.ErrorContains(t, e.own.CheckPeer(t.Context(), peer.History, e.url, peer.Tokens{}),
		"test does not trust the certificate of history: compare OPPORTUNITY_PEER_CA_FILE of test with "+
			"OPPORTUNITY_TLS_CERT_FILE of history")
}

// TestServicePortAcceptsBoth sends requests with and without TLS while a client that sends nothing
// is connected.
func TestServicePortAcceptsBoth(t *testing.T) {
	e := startEncrypted(t, func(c *certificate.ServerConfig) { c.Plain = true })
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	defer silent.Close()
	client := &http.Client{Transport: e.own.Connections()}
	// the second request of each kind is on the connection of the first
	for _, url := range []string{e.URL, e.url, e.URL, e.url} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(strings.Repeat("body ", 10_000)))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", url, body)
		require.Equal(t, url == e.url, resp.TLS != nil)
	}

	e.write(t, "ca.crt", servicetest.NewCA(t).PEM())
	e.clock.Advance(10 * time.Second)
	require.ErrorAs(t, e.own.CheckPeer(t.Context(), peer.History, e.url, peer.Tokens{}), new(peer.SettingsError))
	require.Equal(t, http.StatusOK, servicetest.Send(t, http.MethodGet, e.URL, nil, nil).Status,
		"after a handshake that failed")
}
