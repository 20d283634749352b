package keyusage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/keyusage"
)

func TestDays(t *testing.T) {
	for at, want := range map[string]struct {
		today, before string
		settled       bool
	}{
		"2026-11-21T00:00:00Z":      {"2026-11-21", "2026-11-20", false},
		"2026-11-21T00:09:59.999Z":  {"2026-11-21", "2026-11-20", false},
		"2026-11-21T00:10:00Z":      {"2026-11-21", "2026-11-20", true},
		"2026-11-20T23:59:59.999Z":  {"2026-11-20", "2026-11-19", true},
		"2026-11-20T19:05:00-05:00": {"2026-11-21", "2026-11-20", false},
		"2027-01-01T12:00:00Z":      {"2027-01-01", "2026-12-31", true},
		"2028-03-01T12:00:00Z":      {"2028-03-01", "2028-02-29", true},
	} {
		t.Run(at, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, at)
			require.NoError(t, err)
			today, before, settled := keyusage.Days(now)
			require.Equal(t, want.today, today)
			require.Equal(t, want.before, before)
			require.Equal(t, want.settled, settled)
		})
	}
}

func TestValidDay(t *testing.T) {
	for day, want := range map[string]bool{
		"2026-11-20": true, "2028-02-29": true, "2026-02-29": false, "2026-11-2": false, "20261120": false, "": false, "2026-11-20 ": false,
	} {
		require.Equal(t, want, keyusage.ValidDay(day), day)
	}
}
