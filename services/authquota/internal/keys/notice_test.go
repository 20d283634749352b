package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/keys"
)

func TestNoticesBeforeTheEndOfAKey(t *testing.T) {
	end := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	key := keys.Key{CreatedAt: end.Add(-365 * day), ExpiresAt: end}
	for before, want := range map[time.Duration]int{
		300 * day: 0, 30*day + 1: 0, 30 * day: 30, 8 * day: 30, 7*day + 1: 30, 7 * day: 7, 2 * day: 7, day + 1: 7, day: 1, 1: 1, 0: 0, -day: 0,
	} {
		require.Equal(t, want, key.Notice(end.Add(-before)), "%s before the end", before)
	}
	now := end.Add(-5 * day)
	revoked, replaced := key, key
	revoked.RevokedAt, replaced.ReplacedAt = &now, &now
	require.Zero(t, revoked.Notice(now))
	require.Zero(t, replaced.Notice(now))
	short := keys.Key{CreatedAt: end.Add(-6 * day), ExpiresAt: end}
	require.Zero(t, short.Notice(now), "it was less than seven days from the beginning")
	require.Equal(t, 1, short.Notice(end.Add(-day)))
}
