package service_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

// A service whose token another one rejects stays ready, and names both and the settings.
func TestRejectedTokenIsReported(t *testing.T) {
	var accepts atomic.Bool
	history := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !accepts.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer history.Close()
	cfg := newConfig(t, func(r *service.Runtime) error {
		r.WatchPeer(peer.History, history.URL, peer.Tokens{Peers: []string{"history:" + strings.Repeat("t", 32)}})
		r.Handle(server.ServicePort, http.NotFoundHandler())
		r.Handle("admin", http.NotFoundHandler())
		return nil
	})
	require.NoError(t, definition.Migrate(t.Context(), cfg))
	s := servicetest.Start(t, "test", func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
		cfg.Server, cfg.Telemetry = server, telemetry
		return definition.Run(ctx, cfg)
	})
	readiness := func() servicetest.Response {
		return servicetest.Send(t, http.MethodGet, s.OperationsURL+"/readyz", nil, nil)
	}
	const fault = "test to history (the token of test is rejected: compare history:... in OPPORTUNITY_PEER_TOKENS of test with test:... in OPPORTUNITY_CALLER_TOKENS of history)"
	storetest.Eventually(t, "the fault is reported", func() bool { return strings.Contains(readiness().Body, fault) })
	require.Equal(t, http.StatusOK, readiness().Status)
	require.Contains(t, s.Log.String(), "OPPORTUNITY_CALLER_TOKENS of history")
	accepts.Store(true)
	storetest.Eventually(t, "no fault", func() bool { return !strings.Contains(readiness().Body, "faults") })
}
