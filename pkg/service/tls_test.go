package service_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	silent := storetest.Must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.URL, "http://")))(t)
	defer silent.Close()
	client := &http.Client{Transport: e.own.Connections()}
	// the second request of each kind is on the connection of the first
	for _, url := range []string{e.URL, e.url, e.URL, e.url} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(strings.Repeat("body ", 10_000)))
		require.NoError(t, err)
		resp := storetest.Must(client.Do(req))(t)
		body := storetest.Must(io.ReadAll(resp.Body))(t)
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
