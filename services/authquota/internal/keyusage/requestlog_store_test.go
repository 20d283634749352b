package keyusage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

// issue creates a key in an account of its own.
func sent(key string, n int, at time.Time) api.LoggedRequest {
	return api.LoggedRequest{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Key: key, At: at, Route: "/api/jobs", Params: "country=CA", Status: 400,
		Code: "invalid_parameter", Duration: 1500 * time.Microsecond,
	}
}

func TestRequestsOfAnAccount(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, now := keyusage.NewRequestLog(db.DB), t.Context(), db.Now()
		one, other := issue(t, db, "1"), issue(t, db, "2")
		batch := []api.LoggedRequest{sent(one.ID, 1, now.Add(-time.Hour)), sent(one.ID, 2, now), sent(other.ID, 3, now), sent(keys.NewID(), 4, now)}
		require.NoError(t, s.Add(ctx, batch))
		require.NoError(t, s.Add(ctx, batch), "sent again")
		require.NoError(t, s.Add(ctx, nil))
		recent, err := s.Recent(ctx, one.Account)
		require.NoError(t, err)
		require.Len(t, recent, 2)
		require.Equal(t, []api.LoggedRequest{batch[1], batch[0]}, []api.LoggedRequest{recent[0].LoggedRequest, recent[1].LoggedRequest})
		require.Equal(t, "oda_live_…abcd", recent[0].KeyShown)

		// the log follows its key to another account
		require.NoError(t, db.Exec("UPDATE api_keys SET account_id = ? WHERE id = ?", other.Account, one.ID).Error)
		recent, err = s.Recent(ctx, other.Account)
		require.NoError(t, err)
		require.Len(t, recent, 3)
	})
}

func TestOldRequestsLeaveTheLog(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, begin := keyusage.NewRequestLog(db.DB), t.Context(), db.Now()
		busy, quiet := issue(t, db, "1"), issue(t, db, "2")
		batch := []api.LoggedRequest{sent(quiet.ID, 0, begin)}
		for i := range 1600 { // 500 a second
			batch = append(batch, sent(busy.ID, i+1, begin.Add(time.Duration(i)*2*time.Millisecond)))
		}
		require.NoError(t, s.Add(ctx, batch))
		stored := func() (n int) {
			require.NoError(t, db.Raw("SELECT coalesce(sum(calls), 0) FROM request_log_seconds").Scan(&n).Error)
			return n
		}
		require.Equal(t, 1+1600, stored())
		for range 2 {
			require.NoError(t, s.Prune(ctx))
			require.Equal(t, 1+1100, stored(), "whole seconds")
		}
		recent, err := s.Recent(ctx, busy.Account)
		require.NoError(t, err)
		require.Len(t, recent, api.RequestLogSize)
		require.Equal(t, batch[len(batch)-1].ID, recent[0].ID, "the newest remain")

		db.Advance(api.RequestLogDuration)
		recent, err = s.Recent(ctx, quiet.Account)
		require.NoError(t, err)
		require.Empty(t, recent, "not shown even before it is deleted")
		db.Advance(time.Minute)
		require.NoError(t, s.Prune(ctx))
		require.Zero(t, stored())
	})
}
