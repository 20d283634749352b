package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for given, want := range map[string]string{
		"":                          "",
		"90m":                       "2026-11-20T08:30:00Z",
		"7d":                        "2026-11-13T10:00:00Z",
		"2026-11-01":                "2026-11-01T00:00:00Z",
		"2026-11-01T02:00:00+02:00": "2026-11-01T00:00:00Z",
	} {
		got := storetest.Must(parseSince(given, now))(t)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"yesterday", "-1h", "-1d", "d", "2026-13-01", "20.11.2026"} {
		require.ErrorContains(t, storetest.Err(parseSince(bad, now)), bad)
	}
}
