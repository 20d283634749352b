package feed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

func request(t *testing.T, query string) *http.Request {
	t.Helper()
	return httptest.NewRequest(http.MethodGet, "/feed"+query, nil).WithContext(t.Context())
}

func TestServeWaitsForTheFirstChange(t *testing.T) {
	var reads atomic.Int64
	got, err := feed.Serve(request(t, feed.Query(7, 25*time.Second)), func(_ context.Context, after int64, limit int) ([]int64, error) {
		require.Equal(t, int64(7), after)
		require.Equal(t, feed.Page, limit)
		if reads.Add(1) < 3 {
			return nil, nil
		}
		return []int64{8}, nil
	})
	require.NoError(t, err)
	require.Equal(t, []int64{8}, got)
}

func TestServeReturnsAtOnceWithoutWait(t *testing.T) {
	got, err := feed.Serve(request(t, ""), func(_ context.Context, after int64, _ int) ([]int64, error) {
		require.Zero(t, after)
		return nil, nil
	})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestServeEndsWhenCallerDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	_, err := feed.Serve(request(t, "?wait=25s").WithContext(ctx), func(context.Context, int64, int) ([]int64, error) {
		disconnect()
		return nil, nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestServeRejectsInvalidParameters(t *testing.T) {
	for _, query := range []string{"?after=-1", "?after=x", "?wait=26s", "?wait=-1s", "?wait=5", "?since=1"} {
		_, err := feed.Serve(request(t, query), func(context.Context, int64, int) ([]int64, error) { panic("read called") })
		require.Equal(t, http.StatusBadRequest, problem.Of(err).Code.Status(), query)
	}
}

func TestFollowRetriesFailuresAndEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	pulls := 0
	tel, err := telemetry.Start(ctx, "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	require.NoError(t, feed.Follow(ctx, tel, "test", func(context.Context, time.Duration) (int, error) {
		switch pulls++; pulls {
		case 1, 2:
			return 0, errors.New("unavailable")
		case 3:
			return feed.Page, nil
		}
		stop()
		return 0, nil
	}))
	require.Equal(t, 4, pulls)
	require.Equal(t, 2.0, gather(t, tel)["feed_pull_failures_total"])
}

// The lag grows until a pull returns less than a full page. Neither a failure nor a full page resets it.
func TestFeedLag(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	tel, err := telemetry.Start(ctx, "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	pulls, before := 0, 0.0
	require.NoError(t, feed.Follow(ctx, tel, "test", func(context.Context, time.Duration) (int, error) {
		lag := gather(t, tel)["feed_lag_seconds"]
		switch pulls++; pulls {
		case 1:
			before = lag
			return 0, errors.New("unavailable")
		case 2:
			require.Greater(t, lag, before)
			before = lag
			return feed.Page, nil
		case 3:
			require.Greater(t, lag, before)
			before = lag
			return feed.Page - 1, nil
		case 4:
			require.Less(t, lag, before, "the copy is complete")
		}
		stop()
		return 0, nil
	}))
}

// gather returns the values of all gauges and counters.
func gather(t *testing.T, tel *telemetry.Telemetry) map[string]float64 {
	t.Helper()
	families, err := tel.Registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	return values
}

func TestCatchUpEndsWithoutMoreChanges(t *testing.T) {
	left := []int{feed.Page, 3, 0}
	require.NoError(t, feed.CatchUp(t.Context(), func(_ context.Context, wait time.Duration) (int, error) {
		require.Zero(t, wait)
		n := left[0]
		left = left[1:]
		return n, nil
	}))
	require.Empty(t, left)
	require.Error(t, feed.CatchUp(t.Context(), func(context.Context, time.Duration) (int, error) { return 1, errors.New("unavailable") }))
}
