package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
)

func request(t *testing.T, query string) *http.Request {
	t.Helper()
	return httptest.NewRequest(http.MethodGet, "/feed"+query, nil).WithContext(t.Context())
}

func TestServeWaitsForTheFirstChange(t *testing.T) {
	var reads atomic.Int64
	got, err := feed.Serve(request(t, feed.Query(7, 25*time.Second)), nil, func(_ context.Context, after int64, limit int) ([]int64, error) {
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
	got, err := feed.Serve(request(t, ""), nil, func(_ context.Context, after int64, _ int) ([]int64, error) {
		require.Zero(t, after)
		return nil, nil
	})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestServeEndsWhenCallerDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	_, err := feed.Serve(request(t, "?wait=25s").WithContext(ctx), nil, func(context.Context, int64, int) ([]int64, error) {
		disconnect()
		return nil, nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestServeRejectsInvalidParameters(t *testing.T) {
	for _, query := range []string{"?after=-1", "?after=x", "?wait=26s", "?wait=-1s", "?wait=5", "?since=1"} {
		_, err := feed.Serve(request(t, query), nil, func(context.Context, int64, int) ([]int64, error) { panic("read called") })
		require.Equal(t, http.StatusBadRequest, problem.Of(err).Code.Status(), query)
	}
}

// copyOf returns a copy in memory of a feed whose pages are sequences. It does not save pages while save fails.
func copyOf(fetch func(after int64, wait time.Duration) ([]int64, error), save func([]int64) error) feed.Copy[int64] {
	var position int64
	return feed.Copy[int64]{
		Name:     "test",
		Sequence: func(change int64) int64 { return change },
		Position: func(context.Context) (int64, error) { return position, nil },
		Fetch: func(_ context.Context, query string) ([]int64, error) {
			values, err := url.ParseQuery(query[1:])
			if err != nil {
				return nil, err
			}
			after, _ := strconv.ParseInt(values.Get("after"), 10, 64)
			wait, err := time.ParseDuration(values.Get("wait"))
			if err != nil {
				return nil, err
			}
			return fetch(after, wait)
		},
		Save: func(_ context.Context, page []int64) error {
			if err := save(page); err != nil {
				return err
			}
			position = page[len(page)-1]
			return nil
		},
	}
}

// page returns n changes after the position.
func page(after int64, n int) []int64 {
	changes := make([]int64, n)
	for i := range changes {
		changes[i] = after + int64(i) + 1
	}
	return changes
}

func saved([]int64) error { return nil }

var errUnavailable = errors.New("unavailable")

func TestFollowRetriesFailuresAndEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	registry := prometheus.NewRegistry()
	var log strings.Builder
	fetches, saves := 0, 0
	c := copyOf(func(after int64, wait time.Duration) ([]int64, error) {
		require.Equal(t, 25*time.Second, wait)
		switch fetches++; fetches {
		case 1, 2:
			return nil, errUnavailable
		case 3, 4:
			require.Zero(t, after, "nothing is saved yet")
			return page(after, feed.Page), nil
		}
		require.EqualValues(t, feed.Page, after)
		stop()
		return nil, nil
	}, func([]int64) error {
		if saves++; saves == 1 {
			return errUnavailable
		}
		return nil
	})
	require.NoError(t, c.Follow(ctx, slog.New(slog.NewTextHandler(&log, nil)), registry))
	require.Equal(t, 5, fetches)
	require.Equal(t, 3.0, gather(t, registry)["feed_pull_failures_total"])
	require.Equal(t, 1, strings.Count(log.String(), "feed interrupted, will retry"), "%s", &log)
}

// The lag grows until a pull returns less than a full page. Neither a failure nor a full page resets it.
func TestFeedLag(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	registry := prometheus.NewRegistry()
	pulls, before := 0, 0.0
	require.NoError(t, copyOf(func(after int64, _ time.Duration) ([]int64, error) {
		lag := gather(t, registry)["feed_lag_seconds"]
		switch pulls++; pulls {
		case 1:
			before = lag
			return nil, errUnavailable
		case 2:
			require.Greater(t, lag, before)
			before = lag
			return page(after, feed.Page), nil
		case 3:
			require.Greater(t, lag, before)
			before = lag
			return page(after, feed.Page-1), nil
		case 4:
			require.Less(t, lag, before, "the copy is complete")
		}
		stop()
		return nil, nil
	}, saved).Follow(ctx, slog.New(slog.DiscardHandler), registry))
}

// gather returns the values of all gauges and counters.
func gather(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	return values
}

func TestCatchUpEndsWithoutMoreChanges(t *testing.T) {
	left := []int{feed.Page, 3, 0}
	require.NoError(t, copyOf(func(after int64, wait time.Duration) ([]int64, error) {
		require.Zero(t, wait)
		n := left[0]
		left = left[1:]
		return page(after, n), nil
	}, saved).CatchUp(t.Context()))
	require.Empty(t, left)
	require.ErrorIs(t, copyOf(func(int64, time.Duration) ([]int64, error) { return nil, errUnavailable }, saved).CatchUp(t.Context()), errUnavailable)
}

func TestCatchUpRejectsPageThatDoesNotAdvance(t *testing.T) {
	c := copyOf(func(int64, time.Duration) ([]int64, error) { return []int64{4, 5}, nil }, saved)
	require.ErrorContains(t, c.CatchUp(t.Context()), "page of feed test ends at sequence 5: want above 5")
}
