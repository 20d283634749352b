package gateway_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/gateway"
)

// The process collects garbage less often than by default, unless GOGC sets how often.
func TestHeapGrowsFivefold(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	for environment, want := range map[string]int{"": 400, "100": 100} {
		t.Setenv("GOGC", environment) // restores it after the test
		if environment == "" {
			os.Unsetenv("GOGC")
		}
		debug.SetGCPercent(100)
		require.ErrorContains(t, gateway.Main(t.Context(), nil, nil), "usage")
		require.Equal(t, want, debug.SetGCPercent(100), "growth of the heap in percent with GOGC=%q", environment)
	}
}
