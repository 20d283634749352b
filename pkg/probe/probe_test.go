package probe_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/probe"
)

func TestReadyNeedsOnlyTheOperationsPort(t *testing.T) {
	status := http.StatusServiceUnavailable
	operations := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(status)
	}))
	defer operations.Close()
	_, port, err := net.SplitHostPort(operations.Listener.Addr().String())
	require.NoError(t, err)
	for _, address := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port} {
		ready := func() error {
			return probe.Ready(t.Context(), func(name string) (string, bool) {
				return address, name == "OPPORTUNITY_OPERATIONS_LISTEN"
			})
		}
		status = http.StatusServiceUnavailable
		require.ErrorContains(t, ready(), "is not ready: status 503", address)
		status = http.StatusOK
		require.NoError(t, ready(), address)
	}
}
