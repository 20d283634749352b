package service_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service"
)

type settings struct {
	Word string `env:"OPPORTUNITY_WORD,required,notEmpty" doc:"A word."`
}

func TestServiceHasItsOwnVerbs(t *testing.T) {
	var ran []string
	record := func(name string) func(context.Context, settings, []string) error {
		return func(_ context.Context, s settings, args []string) error {
			ran = append(ran, strings.Join(append([]string{name, s.Word}, args...), " "))
			return nil
		}
	}
	withDatabase := service.Definition[settings]{Name: "test", Migrations: fstest.MapFS{}}
	verbs := map[string]service.Verb[settings]{
		"show":  {Usage: "[--at DATE] ID", Run: record("show")},
		"count": {Run: record("count")},
	}
	main := func(args ...string) error {
		return withDatabase.Main(t.Context(), func(string) (string, bool) { return "yes", true }, args, verbs)
	}
	require.NoError(t, main("show", "--at", "2026-11-20", "maple"))
	require.NoError(t, main("count"))
	require.Equal(t, []string{"show yes --at 2026-11-20 maple", "count yes"}, ran)

	const usage = "usage: test serve | migrate | check | ready | count | show [--at DATE] ID"
	for _, wrong := range [][]string{nil, {"dance"}, {"serve", "now"}, {"migrate", "now"}, {"ready", "now"}, {"count", "more"}} {
		require.EqualError(t, main(wrong...), usage)
	}
	require.Len(t, ran, 2)
	unset := func(string) (string, bool) { return "", false }
	require.ErrorContains(t, withDatabase.Main(t.Context(), unset, []string{"count"}, verbs), "OPPORTUNITY_WORD")
	require.ErrorContains(t, withDatabase.Main(t.Context(), unset, []string{"serve"}, verbs), "OPPORTUNITY_WORD")

	withoutDatabase := service.Definition[settings]{Name: "test"}
	require.EqualError(t, withoutDatabase.Main(t.Context(), unset, []string{"migrate"}, nil), "usage: test serve | check | ready")
}

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
			return service.Definition[settings]{Name: "test"}.Main(t.Context(), func(name string) (string, bool) {
				return address, name == "OPPORTUNITY_OPERATIONS_LISTEN"
			}, []string{"ready"}, nil)
		}
		status = http.StatusServiceUnavailable
		require.ErrorContains(t, ready(), "is not ready: status 503", address)
		status = http.StatusOK
		require.NoError(t, ready(), address)
	}
}
