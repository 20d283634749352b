package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "12h": 12 * time.Hour, "90m": 90 * time.Minute, "1d12h": 36 * time.Hour, "2w": 14 * day,
		"1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"0":          0, "0s": 0, "1.5d": 36 * time.Hour, "500ms": 500 * time.Millisecond, "3µs": 3 * time.Microsecond,
		"720h0m0s": 720 * time.Hour,
	} {
		got, err := api.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "30", "30x", "d", "-1d", "+1d", "1d-2h", "1 d", "d1", "1..5d", "1dd", "200000d",
		"106751d24h", "1h 2m", "٣d", "NaNd", "1e3d"} {
		_, err := api.ParseDuration(text)
		require.EqualError(t, err, "use a duration such as 30d, 12h or 90m", text)
	}
}

// ParseDuration accepts every duration formatted by Go.
func TestParseDurationReadsGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "d"))
		got, err := api.ParseDuration(want.String())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
