package usage_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/usage"
)

// Writing the growth stores the greatest value ever read for each account.
func TestGrowthKeepsTheGreatestValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		written, greatest := map[string]int{}, map[string]int{}
		account := rapid.SampledFrom([]string{"*", "a", "b", "c"})
		for range rapid.IntRange(1, 20).Draw(t, "reads") {
			read := rapid.MapOf(account, rapid.IntRange(0, 9)).Draw(t, "read")
			grown := usage.Growth(written, read)
			if !slices.IsSortedFunc(grown, func(a, b usage.Count) int { return cmp.Compare(a.Account, b.Account) }) {
				t.Fatalf("not in the order of the accounts: %v", grown)
			}
			for _, c := range grown {
				if c.Calls <= written[c.Account] {
					t.Fatalf("%v is no growth over %d", c, written[c.Account])
				}
				written[c.Account] = c.Calls
			}
			for a, calls := range read {
				if calls > greatest[a] {
					greatest[a] = calls
				}
			}
			if !maps.Equal(greatest, written) {
				t.Fatalf("want %v, wrote %v", greatest, written)
			}
			if again := usage.Growth(written, read); len(again) > 0 {
				t.Fatalf("written twice: %v", again)
			}
		}
	})
}

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
			today, before, settled := usage.Days(now)
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
		require.Equal(t, want, usage.ValidDay(day), day)
	}
}
