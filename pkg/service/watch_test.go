package service_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// watching starts a service that watches the service history at base. It returns its readiness.
func watching(t *testing.T, base string) func() servicetest.Response {
	t.Helper()
	cfg := newConfig(t, func(r *service.Runtime) error {
		r.WatchPeer(peer.History, base, peer.Tokens{Peers: []string{"history:" + strings.Repeat("t", 32)}})
		return nil
	})
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	s := run(t, cfg)
	return func() servicetest.Response { return readiness(t, s) }
}

// A service that starts with a wrong token is not ready, so that a rollout keeps the old pods. Once
// its token was accepted, by a peer that need not be ready itself, it stays ready, and names the
// settings to compare if the token is rejected later.
func TestRejectedTokenKeepsNewServiceUnready(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusUnauthorized)
	history := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	defer history.Close()
	readiness := watching(t, history.URL)
	const fault = "test to history (the token of test is rejected: compare history:... in OPPORTUNITY_PEER_TOKENS of " +
		"test with test:... in OPPORTUNITY_CALLER_TOKENS of history)"
	storetest.Eventually(t, "the fault is named", func() bool { return strings.Contains(readiness().Body, fault) })
	require.Equal(t, http.StatusServiceUnavailable, readiness().Status)

	status.Store(http.StatusServiceUnavailable)
	storetest.Eventually(t, "ready", func() bool { return readiness().Status == http.StatusOK })
	require.NotContains(t, readiness().Body, "faults")

	status.Store(http.StatusUnauthorized)
	storetest.Eventually(t, "the fault is reported",
		func() bool { return strings.Contains(readiness().Body, `"faults":["`+fault) })
	require.Equal(t, http.StatusOK, readiness().Status)
	status.Store(http.StatusOK)
	storetest.Eventually(t, "no fault", func() bool { return !strings.Contains(readiness().Body, "faults") })
}

// Services that start together do not wait for each other.
func TestUnreachablePeerDoesNotKeepServiceUnready(t *testing.T) {
	readiness := watching(t, "http://"+storetest.FreeAddress(t))
	storetest.Eventually(t, "ready", func() bool { return readiness().Status == http.StatusOK })
}
