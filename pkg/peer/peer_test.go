package peer_test

import (
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

var tokens = peer.Tokens{Values: []string{strings.Repeat("n", 32), strings.Repeat("o", 32)}}

func TestCall(t *testing.T) {
	var status int
	var reply string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer "+tokens.Values[0], r.Header.Get("Authorization"), "the first token is sent")
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"digests":["d"]}`, string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	defer s.Close()
	call := func() (out struct{ Name string }, err error) {
		err = peer.New(s.URL, tokens, http.DefaultTransport).Post(t.Context(), "/x", map[string][]string{"digests": {"d"}}, &out)
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
	err := peer.New(s.URL, tokens, http.DefaultTransport).Get(t.Context(), "/x", nil)
	e := new(problem.Error)
	require.True(t, errors.As(err, &e))
	require.Equal(t, problem.ServiceUnavailable, e.Code)
}

func TestShortTokensAreRejected(t *testing.T) {
	require.NoError(t, tokens.Validate())
	err := peer.Tokens{Values: []string{"short"}}.Validate()
	require.ErrorContains(t, err, "OPPORTUNITY_INTERNAL_TOKENS")
	require.NotContains(t, err.Error(), "short")
}

func TestReadinessChecksTheToken(t *testing.T) {
	s := httptest.NewServer(tokens.Readiness(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer s.Close()
	require.NoError(t, peer.CheckReady(t.Context(), s.URL), "probes have no token")
	require.NoError(t, tokens.CheckReady(t.Context(), s.URL))
	require.NoError(t, peer.Tokens{Values: tokens.Values[1:]}.CheckReady(t.Context(), s.URL), "the older token, during a rotation")
	other := peer.Tokens{Values: []string{strings.Repeat("x", 32)}}
	err := other.CheckReady(t.Context(), s.URL)
	require.ErrorIs(t, err, peer.ErrTokenRejected)
	require.ErrorContains(t, err, s.URL)
	require.NotContains(t, err.Error(), other.Values[0])
}
