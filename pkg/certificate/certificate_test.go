package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// world is a certificate in files, with a clock, a log and metrics.
type world struct {
	t        *testing.T
	ca       *servicetest.CA
	dir      string
	now      time.Time
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	return &world{t: t, ca: servicetest.NewCA(t), dir: t.TempDir(), now: time.Now(), registry: prometheus.NewRegistry()}
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name string, content []byte) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.file(name), content, 0o600))
}

// issue writes a certificate with the lifetime from now on.
func (w *world) issue(lifetime time.Duration) (cert, key []byte) {
	w.t.Helper()
	cert, key = w.ca.Issue(w.t, w.now.Add(-time.Hour), w.now.Add(lifetime), "127.0.0.1")
	w.write("tls.crt", cert)
	w.write("tls.key", key)
	return cert, key
}

func (w *world) config() certificate.ServerConfig {
	return certificate.ServerConfig{CertFile: w.file("tls.crt"), KeyFile: w.file("tls.key")}
}

func (w *world) open() func(net.Listener) net.Listener {
	w.t.Helper()
	s, err := certificate.OpenServer(w.config(), func() time.Time { return w.now },
		slog.New(slog.NewTextHandler(&w.log, nil)), w.registry)
	require.NoError(w.t, err)
	return s
}

// overdue returns the metric that alerts use.
func (w *world) overdue() float64 {
	w.t.Helper()
	return servicetest.Series(w.t, w.registry, "tls_certificate_renewal_overdue")["certificate=server"]
}

func (w *world) logged(text string) int { return strings.Count(w.log.String(), text) }

// presented returns the end of the certificate that a new connection gets.
func (w *world) presented(withTLS func(net.Listener) net.Listener) time.Time {
	w.t.Helper()
	plain := storetest.Must(new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0"))(w.t)
	ln := withTLS(plain)
	defer ln.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = conn.(*tls.Conn).HandshakeContext(context.Background())
			_ = conn.Close()
		}
		done <- err
	}()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: w.ca.Pool(), Time: func() time.Time { return w.now }}}
	conn := storetest.Must(dialer.DialContext(w.t.Context(), "tcp", ln.Addr().String()))(w.t)
	defer conn.Close()
	require.NoError(w.t, <-done)
	state := conn.(*tls.Conn).ConnectionState()
	require.EqualValues(w.t, tls.VersionTLS13, state.Version)
	return state.PeerCertificates[0].NotAfter
}

func TestChangedCertificateIsPresentedWithin10Seconds(t *testing.T) {
	w := newWorld(t)
	w.issue(30 * 24 * time.Hour)
	s := w.open()
	first := w.presented(s)
	w.issue(60 * 24 * time.Hour)
	w.now = w.now.Add(9 * time.Second)
	require.Equal(t, first, w.presented(s))
	w.now = w.now.Add(time.Second)
	require.Equal(t, first.Add(30*24*time.Hour), w.presented(s))
	require.Equal(t, 1, w.logged("certificate reread"))
	require.Len(t, servicetest.Series(t, w.registry, "tls_certificate_expiry_timestamp_seconds"), 1)
}

func TestUnreadableCertificateKeepsThePreviousOne(t *testing.T) {
	w := newWorld(t)
	_, oldKey := w.issue(30 * 24 * time.Hour)
	s := w.open()
	first := w.presented(s)
	cert, key := w.issue(60 * 24 * time.Hour)
	later := func() time.Time {
		w.now = w.now.Add(10 * time.Second)
		return w.presented(s)
	}
	for _, broken := range []struct{ cert, key []byte }{{cert, oldKey}, {cert[:len(cert)/2], key}} {
		w.log.Reset()
		w.write("tls.crt", broken.cert)
		w.write("tls.key", broken.key)
		require.Equal(t, first, later())
		require.Equal(t, first, later())
		require.Equal(t, 1, w.logged("certificate not reread"), w.log.String())
	}
	require.NoError(t, os.Remove(w.file("tls.crt")))
	require.Equal(t, first, later())
	w.write("tls.crt", cert)
	w.write("tls.key", key)
	require.Equal(t, first.Add(30*24*time.Hour), later())
	require.Equal(t, 1, w.logged("certificate reread"))
}

func TestExpiryIsLoggedOnceADay(t *testing.T) {
	w := newWorld(t)
	w.issue(90 * 24 * time.Hour)
	s := w.open()
	w.now = w.now.Add(75 * 24 * time.Hour)
	w.presented(s)
	require.Zero(t, w.logged("expires soon"))
	require.Zero(t, w.overdue())
	w.now = w.now.Add(25 * time.Hour)
	require.Equal(t, 1.0, w.overdue())
	w.presented(s)
	require.Equal(t, 1, w.logged(`msg="certificate expires soon" file=`+w.file("tls.crt")+" days_left=13"), w.log.String())
	w.now = w.now.Add(23 * time.Hour)
	w.presented(s)
	require.Equal(t, 1, w.logged("expires soon"))
	w.now = w.now.Add(time.Hour)
	w.presented(s)
	require.Equal(t, 1, w.logged("days_left=12"))

	w.now = w.now.Add(30 * 24 * time.Hour)
	w.registry = prometheus.NewRegistry()
	w.open() // does not fail: the operator must be able to see why calls fail
	require.Equal(t, 1, w.logged("certificate has expired"))
}

func TestInvalidFilesAreNamed(t *testing.T) {
	w := newWorld(t)
	cert, key := w.issue(time.Hour)
	_, other := w.ca.Issue(t, w.now, w.now.Add(time.Hour), "x")
	w.write("other.key", other)
	w.write("empty", nil)
	w.write("mixed", append(bytes.Clone(cert), key...))
	require.NoError(t, w.config().Validate())
	require.NoError(t, certificate.ServerConfig{}.Validate())
	require.EqualError(t, certificate.ServerConfig{Plain: true}.Validate(),
		"OPPORTUNITY_TLS_ACCEPT_PLAINTEXT has no effect without OPPORTUNITY_TLS_CERT_FILE: remove it")
	for _, c := range []struct{ cert, key, message string }{
		{"tls.crt", "", "OPPORTUNITY_TLS_CERT_FILE and OPPORTUNITY_TLS_KEY_FILE must be set together"},
		{"none", "tls.key", "OPPORTUNITY_TLS_CERT_FILE: open " + w.file("none") + ": no such file"},
		{"tls.crt", "none", "OPPORTUNITY_TLS_KEY_FILE: open " + w.file("none") + ": no such file"},
		{"tls.crt", "other.key", "private key does not match public key"},
		{"empty", "tls.key", "OPPORTUNITY_TLS_CERT_FILE " + w.file("empty") +
			": tls: failed to find any PEM data in certificate input"},
	} {
		cfg := certificate.ServerConfig{CertFile: w.file(c.cert)}
		if c.key != "" {
			cfg.KeyFile = w.file(c.key)
		}
		err := cfg.Validate()
		require.ErrorContains(t, err, c.message)
		_, opened := certificate.OpenServer(cfg, time.Now, slog.New(slog.DiscardHandler), w.registry)
		require.Equal(t, err, opened)
	}
	w.write("ca.crt", w.ca.PEM())
	for file, message := range map[string]string{
		"none": "OPPORTUNITY_PEER_CA_FILE: open " + w.file("none"), "empty": "has no certificate in PEM form",
		"mixed": "has a PRIVATE KEY: only certificates belong here",
	} {
		require.ErrorContains(t, certificate.PeerConfig{CAFile: w.file(file)}.Validate(nil), message)
	}
	urls := map[string]string{"OPPORTUNITY_CATALOG_URL": "http://catalog:8080",
		"OPPORTUNITY_HISTORY_URL": "https://history:8080", "OPPORTUNITY_BILLING_URL": ""}
	require.EqualError(t, certificate.PeerConfig{CAFile: w.file("ca.crt")}.Validate(urls),
		"OPPORTUNITY_CATALOG_URL must begin with https://, because OPPORTUNITY_PEER_CA_FILE is set")
	require.NoError(t, certificate.PeerConfig{}.Validate(urls))
}

func TestChangedAuthoritiesAreTrusted(t *testing.T) {
	w := newWorld(t)
	w.write("ca.crt", w.ca.PEM())
	roots, err := certificate.OpenRoots(certificate.PeerConfig{CAFile: w.file("ca.crt")},
		func() time.Time { return w.now }, slog.New(slog.NewTextHandler(&w.log, nil)), w.registry)
	require.NoError(t, err)
	require.True(t, roots().Equal(w.ca.Pool()))
	next := servicetest.NewCA(t)
	w.write("ca.crt", next.PEM())
	require.True(t, roots().Equal(w.ca.Pool()))
	w.now = w.now.Add(10 * time.Second)
	require.True(t, roots().Equal(next.Pool()))

	none := storetest.Must(certificate.OpenRoots(certificate.PeerConfig{}, time.Now, nil, nil))(t)
	require.Nil(t, none, "those of the system")
}
