package peer_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

const token = "a token of at least 32 characters"

func TestCall(t *testing.T) {
	var status int
	var reply string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer "+token, r.Header.Get("Authorization"))
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"digests":["d"]}`, string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	defer s.Close()
	call := func() (out struct{ Name string }, err error) {
		err = peer.New(s.URL, token, http.DefaultTransport).Post(t.Context(), "/x", map[string][]string{"digests": {"d"}},
			&out)
		return out, err
	}

	status, reply = 200, `{"name":"a"}`
	out, err := call()
	require.NoError(t, err)
	require.Equal(t, "a", out.Name)

	status, reply = 404, `{"error":{"code":"not_found","message":"No such key."},"documentation":"x"}`
	_, err = call()
	failed := new(peer.StatusError)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, peer.StatusError{Status: 404, Code: "not_found", Message: "No such key."}, *failed)

	status, reply = 503, `busy`
	_, err = call()
	require.Equal(t, problem.ServiceUnavailable, problem.Of(err).Code)

	status, reply = 200, `not JSON`
	_, err = call()
	require.Error(t, err)
	require.Equal(t, problem.InternalError, problem.Of(err).Code)
}

func TestUnreachablePeerIsUnavailable(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	require.NoError(t, peer.CheckReady(t.Context(), s.URL))
	status = http.StatusServiceUnavailable
	require.ErrorContains(t, peer.CheckReady(t.Context(), s.URL), "not ready")
	s.Close()
	require.ErrorContains(t, peer.CheckReady(t.Context(), s.URL), "refused")
	err := peer.New(s.URL, token, http.DefaultTransport).Get(t.Context(), "/x", nil)
	e := new(problem.Error)
	require.True(t, errors.As(err, &e))
	require.Equal(t, problem.ServiceUnavailable, e.Code)
}

// A service with a fault serves: its health check succeeds, while the services and operators that
// depend on it learn of the fault.
func TestFaultsOfAReadyPeerAreReturned(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ready","faults":["catalog to history (rejected)","b"]}`)
	}))
	defer s.Close()
	require.NoError(t, peer.CheckReady(t.Context(), s.URL))
	err := peer.Tokens{Peers: []string{"catalog:" + token}}.CheckReady(t.Context(), peer.Gateway, peer.Catalog, s.URL, nil)
	require.Equal(t, &peer.FaultError{Faults: []string{"catalog to history (rejected)", "b"}}, err)
	require.EqualError(t, err, "catalog to history (rejected), b")
}

func TestFailedHandshakeNamesBothServices(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	secure, plain := httptest.NewTLSServer(handler), httptest.NewServer(handler)
	defer secure.Close()
	defer plain.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	check := func(url string, pool *x509.CertPool) error {
		tokens := peer.Tokens{Peers: []string{"history:" + token}}
		return tokens.CheckReady(t.Context(), peer.Catalog, peer.History, url, func() *x509.CertPool { return pool })
	}
	require.NoError(t, check(secure.URL, trusted))
	require.NoError(t, check(plain.URL, trusted))
	for _, c := range []struct {
		url     string
		pool    *x509.CertPool
		message string
	}{
		{secure.URL, x509.NewCertPool(),
			"catalog does not trust the certificate of history: compare OPPORTUNITY_PEER_CA_FILE of catalog with " +
				"OPPORTUNITY_TLS_CERT_FILE of history: x509: certificate signed by unknown authority"},
		{strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), trusted,
			"catalog rejects the certificate of history: x509: certificate is valid for example.com"},
		{strings.Replace(plain.URL, "http:", "https:", 1), trusted,
			"history does not use TLS, but its URL in the settings of catalog begins with https"},
		{strings.Replace(secure.URL, "https:", "http:", 1), trusted,
			"history uses TLS: its URL in the settings of catalog must begin with https"},
	} {
		err := check(c.url, c.pool)
		require.ErrorAs(t, err, new(peer.SettingsError), c.url)
		require.ErrorContains(t, err, c.message)
	}
}
