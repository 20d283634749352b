package feed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

func request(t *testing.T, query string) *http.Request {
	t.Helper()
	return httptest.NewRequest(http.MethodGet, "/feed"+query, nil).WithContext(t.Context())
}

// verify is a store that has every mark.
func verify(context.Context, string) (newest string, lost bool, err error) {
	return "newest", false, nil
}

func TestServeWaitsForTheFirstChange(t *testing.T) {
	var reads atomic.Int64
	got, err := feed.Serve(request(t, feed.Cursor{Position: 7, Mark: "m"}.Query(25*time.Second)), nil, verify,
		func(_ context.Context, after int64, limit int) ([]int64, error) {
			require.Equal(t, int64(7), after)
			require.Equal(t, feed.PageSize, limit)
			if reads.Add(1) < 3 {
				return nil, nil
			}
			return []int64{8}, nil
		})
	require.NoError(t, err)
	require.Equal(t, feed.Page[int64]{Changes: []int64{8}, Mark: "newest"}, got)
}

func TestServeReturnsAtOnceWithoutWait(t *testing.T) {
	got, err := feed.Serve(request(t, ""), nil, verify, func(_ context.Context, after int64, _ int) ([]int64, error) {
		require.Zero(t, after)
		return nil, nil
	})
	require.NoError(t, err)
	require.Empty(t, got.Changes)
}

// The log line of a long poll has level DEBUG, however long it waited.
func TestServeIsNotASlowRequest(t *testing.T) {
	var log bytes.Buffer
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: &log})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		tel.InternalHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := feed.Serve(r, nil, verify, func(context.Context, int64, int) ([]int64, error) { return nil, nil })
			require.NoError(t, err)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/feed?wait=25s", nil))
	})
	require.Empty(t, log.String())
}

func TestServeEndsWhenCallerDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	_, err := feed.Serve(request(t, "?wait=25s").WithContext(ctx), nil, verify,
		func(context.Context, int64, int) ([]int64, error) {
			disconnect()
			return nil, nil
		})
	require.ErrorIs(t, err, context.Canceled)
}

func TestServeRejectsInvalidParameters(t *testing.T) {
	for _, query := range []string{"?after=-1", "?after=x", "?wait=26s", "?wait=-1s", "?wait=5", "?since=1"} {
		_, err := feed.Serve(request(t, query), nil, verify,
			func(context.Context, int64, int) ([]int64, error) { panic("read called") })
		require.Equal(t, http.StatusBadRequest, problem.Of(err).Code.Status(), query)
	}
}

// copyOf returns a copy in memory of a feed whose pages are sequences. It does not save pages while
// save fails.
func copyOf(fetch func(after int64, wait time.Duration) ([]int64, error), save func([]int64) error) feed.Copy[int64] {
	var cursor feed.Cursor
	return feed.Copy[int64]{
		Name:     "test",
		Sequence: func(change int64) int64 { return change },
		Cursor:   func(context.Context) (feed.Cursor, error) { return cursor, nil },
		StartOver: func(context.Context, feed.Cursor) error {
			cursor = feed.Cursor{Restarted: true}
			return nil
		},
		Prune: func(context.Context) error { return nil },
		Fetch: func(_ context.Context, query string) (page feed.Page[int64], err error) {
			values, err := url.ParseQuery(query[1:])
			if err != nil {
				return page, err
			}
			after, _ := strconv.ParseInt(values.Get("after"), 10, 64)
			wait, err := time.ParseDuration(values.Get("wait"))
			if err != nil {
				return page, err
			}
			page.Changes, err = fetch(after, wait)
			return page, err
		},
		Save: func(_ context.Context, _ feed.Cursor, page []int64, to feed.Cursor) error {
			if err := save(page); err != nil {
				return err
			}
			cursor = to
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
			return page(after, feed.PageSize), nil
		}
		require.EqualValues(t, feed.PageSize, after)
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

// The lag grows until a pull returns less than a full page. Neither a failure nor a full page
// resets it.
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
			return page(after, feed.PageSize), nil
		case 3:
			require.Greater(t, lag, before)
			before = lag
			return page(after, feed.PageSize-1), nil
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
	left := []int{feed.PageSize, 3, 0}
	require.NoError(t, copyOf(func(after int64, wait time.Duration) ([]int64, error) {
		require.Zero(t, wait)
		n := left[0]
		left = left[1:]
		return page(after, n), nil
	}, saved).CatchUp(t.Context()))
	require.Empty(t, left)
	require.ErrorIs(t, copyOf(func(int64, time.Duration) ([]int64, error) { return nil, errUnavailable },
		saved).CatchUp(t.Context()), errUnavailable)
}

func TestCatchUpRejectsPageThatDoesNotAdvance(t *testing.T) {
	c := copyOf(func(int64, time.Duration) ([]int64, error) { return []int64{4, 5}, nil }, saved)
	require.ErrorContains(t, c.CatchUp(t.Context()), "page of feed test ends at sequence 5: want above 5")
}

// owner is the store of a feed, with the sequences of its changes, and copied is a copy of it.
type owner struct {
	changes    []int64
	generation string
	lost       []string // marks of generations that were given up
	setBack    error
}

func (o *owner) verify(_ context.Context, mark string) (newest string, lost bool, err error) {
	return fmt.Sprint(o.generation, len(o.changes)), mark == "" || slices.Contains(o.lost, mark[:1]), o.setBack
}

type copied struct {
	data   map[int64]int64 // change -> sequence, 0 for data from before
	cursor feed.Cursor
}

func (c *copied) of(t *testing.T, o *owner) feed.Copy[int64] {
	return feed.Copy[int64]{
		Name: "test", Sequence: func(change int64) int64 { return change },
		Cursor: func(context.Context) (feed.Cursor, error) { return c.cursor, nil },
		Fetch: func(_ context.Context, query string) (feed.Page[int64], error) {
			return feed.Serve(request(t, query), nil, o.verify,
				func(_ context.Context, after int64, limit int) (page []int64, err error) {
					for _, change := range o.changes {
						if change > after && len(page) < limit {
							page = append(page, change)
						}
					}
					return page, nil
				})
		},
		Save: func(_ context.Context, from feed.Cursor, page []int64, to feed.Cursor) error {
			if c.cursor == from {
				for _, change := range page {
					c.data[change] = change
				}
				c.cursor = to
			}
			return nil
		},
		StartOver: func(context.Context, feed.Cursor) error {
			for change := range c.data {
				c.data[change] = 0
			}
			c.cursor = feed.Cursor{Restarted: true}
			return nil
		},
		Prune: func(context.Context) error {
			if c.cursor.Restarted {
				maps.DeleteFunc(c.data, func(_, sequence int64) bool { return sequence == 0 })
				c.cursor.Restarted = false
			}
			return nil
		},
	}
}

// A copy ends equal to its store, whether its cursor is lost or an operator gave up changes that it
// has.
func TestCopyEndsEqualToItsStore(t *testing.T) {
	o, c := &owner{changes: page(0, 3*feed.PageSize), generation: "a"}, &copied{data: map[int64]int64{}}
	follow := c.of(t, o)
	equal := func() {
		t.Helper()
		require.NoError(t, follow.CatchUp(t.Context()))
		require.ElementsMatch(t, o.changes, slices.Collect(maps.Keys(c.data)))
		require.False(t, c.cursor.Restarted)
	}
	equal()
	c.cursor = feed.Cursor{}
	c.data[99_999] = 99_999
	equal()
	c.cursor.Mark = ""
	equal()

	o.changes = o.changes[:10]
	o.setBack = errUnavailable
	require.ErrorIs(t, follow.CatchUp(t.Context()), errUnavailable)
	require.Len(t, c.data, 3*feed.PageSize, "it keeps what it has until the decision")
	o.setBack, o.generation, o.lost = nil, "b", []string{"a"}
	equal()
	o.changes = append(o.changes, 12)
	equal()
}
