package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway"
)

// Only a trusted proxy can make the gateway continue a trace.
func TestTraceOfStrangerIsNotContinued(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	header := http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}, "Tracestate": {"a=b"},
		"Baggage": {"a=b"}}
	for name, c := range map[string]struct {
		proxies   []string
		continued bool
	}{
		"stranger":      {nil, false},
		"trusted proxy": {[]string{"127.0.0.0/8"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			gw := w.start(func(cfg *gateway.Config) { cfg.TrustedProxies = c.proxies })
			gw.do(t, request{path: "/docs", header: header})
			w.awaitLog(t, `"route":"/docs"`)
			require.Equal(t, c.continued, strings.Contains(w.log.String(), trace), w.log.String())
		})
	}
}
