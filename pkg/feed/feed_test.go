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

// source returns a store that has every mark and moves n times.
func source(n int, changes func(ctx context.Context, after int64, limit int) ([]int64, error)) feed.Source[int64] {
	return feed.Source[int64]{
		Verify: func(context.Context, string, int64) (newest string, lost bool, err error) {
			return "newest", false, nil
		},
		Changes: changes,
		Moved: func() <-chan struct{} {
			moved := make(chan struct{})
			if n--; n >= 0 {
				close(moved)
			}
			return moved
		},
	}
}

func TestServeReadsChangesAtTheStartAndWhenTheStoreMoves(t *testing.T) {
	reads := 0
	got, err := source(2, func(_ context.Context, after int64, limit int) ([]int64, error) {
		require.Equal(t, int64(7), after)
		require.Equal(t, feed.PageSize, limit)
		if reads++; reads < 3 {
			return nil, nil
		}
		return []int64{8}, nil
	}).Serve(request(t, "?after=7&wait=25s&mark=m"), nil)
	require.NoError(t, err)
	require.Equal(t, feed.Page[int64]{Changes: []int64{8}, Mark: "newest"}, got)
}

// The log line of a long poll has level DEBUG, however long it waited.
func TestServeIsNotASlowRequest(t *testing.T) {
	var log bytes.Buffer
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: &log})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := source(0, func(context.Context, int64, int) ([]int64, error) { reads++; return nil, nil })
		tel.InternalHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, err := s.Serve(r, nil)
			require.NoError(t, err)
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/feed?wait=25s", nil))
		require.Equal(t, 2, reads, "at the start and at the end")
	})
	require.Empty(t, log.String())
}

func TestServeEndsWhenCallerDisconnects(t *testing.T) {
	ctx, disconnect := context.WithCancel(t.Context())
	_, err := source(0, func(context.Context, int64, int) ([]int64, error) {
		disconnect()
		return nil, nil
	}).Serve(request(t, "?wait=25s").WithContext(ctx), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestServeRejectsInvalidParameters(t *testing.T) {
	for _, query := range []string{"?after=-1", "?after=x", "?wait=26s", "?wait=-1s", "?wait=5", "?since=1"} {
		_, err := source(0, func(context.Context, int64, int) ([]int64, error) { panic("read called") }).
			Serve(request(t, query), nil)
		require.Equal(t, http.StatusBadRequest, problem.Of(err).Code.Status(), query)
	}
}

// copied is a copy in memory: change -> sequence, 0 for data from before.
type copied struct {
	data   map[int64]int64
	cursor feed.Cursor
}

func (c *copied) Cursor(context.Context) (feed.Cursor, error) { return c.cursor, nil }

func (c *copied) Save(_ context.Context, from feed.Cursor, page []int64, to feed.Cursor) error {
	if c.cursor == from {
		for _, change := range page {
			c.data[change] = change
		}
		c.cursor = to
	}
	return nil
}

func (c *copied) StartOver(_ context.Context, _, to feed.Cursor) error {
	for change := range c.data {
		c.data[change] = 0
	}
	c.cursor = to
	return nil
}

func (c *copied) Prune(_ context.Context, from, to feed.Cursor) error {
	if c.cursor == from {
		maps.DeleteFunc(c.data, func(_, sequence int64) bool { return sequence == 0 })
		c.cursor = to
	}
	return nil
}

// copyOf returns a new copy of a feed whose pages are sequences.
func copyOf(fetch func(after int64, wait time.Duration) ([]int64, error)) feed.Copy[int64] {
	return feed.Copy[int64]{
		Name: "test", Path: "/feed",
		Sequence: func(change int64) int64 { return change },
		Store:    &copied{data: map[int64]int64{}},
		Get: func(_ context.Context, path string, out any) error {
			u, err := url.Parse(path)
			if err != nil {
				return err
			}
			after, _ := strconv.ParseInt(u.Query().Get("after"), 10, 64)
			wait, _ := time.ParseDuration(u.Query().Get("wait"))
			out.(*feed.Page[int64]).Changes, err = fetch(after, wait)
			return err
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

var errUnavailable = errors.New("unavailable")

// The lag grows until a pull returns less than a full page. Neither a failure nor a full page
// resets it.
func TestFollowRetriesFailuresUntilTheCopyIsComplete(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	registry := prometheus.NewRegistry()
	var log strings.Builder
	pulls, before := 0, -1.0
	require.NoError(t, copyOf(func(after int64, wait time.Duration) ([]int64, error) {
		require.Equal(t, 25*time.Second, wait)
		lag := gather(t, registry)["feed_lag_seconds"]
		if pulls++; pulls == 5 {
			require.Less(t, lag, before, "the copy is complete")
			stop()
			return nil, nil
		}
		require.Greater(t, lag, before)
		before = lag
		switch pulls {
		case 1, 2:
			return nil, errUnavailable
		case 3:
			require.Zero(t, after)
			return page(after, feed.PageSize), nil
		}
		require.EqualValues(t, feed.PageSize, after)
		return page(after, feed.PageSize-1), nil
	}).Follow(ctx, slog.New(slog.NewTextHandler(&log, nil)), registry))
	require.Equal(t, 2.0, gather(t, registry)["feed_pull_failures_total"])
	require.Equal(t, 1, strings.Count(log.String(), "feed interrupted, will retry"), "%s", &log)
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

func TestCatchUpRejectsPageThatDoesNotAdvance(t *testing.T) {
	c := copyOf(func(int64, time.Duration) ([]int64, error) { return []int64{4, 5}, nil })
	require.ErrorContains(t, c.CatchUp(t.Context()), "page of feed test ends at sequence 5: want above 5")
}

// owner is the store of a feed, with the sequences of its changes.
type owner struct {
	changes    []int64
	generation string
	lost       []string // marks of generations that were given up
	setBack    error
}

func (o *owner) verify(_ context.Context, mark string, _ int64) (newest string, lost bool, err error) {
	return fmt.Sprint(o.generation, len(o.changes)), mark == "" || slices.Contains(o.lost, mark[:1]), o.setBack
}

func (o *owner) get(_ context.Context, path string, out any) (err error) {
	s := source(0, func(_ context.Context, after int64, limit int) (page []int64, err error) {
		for _, change := range o.changes {
			if change > after && len(page) < limit {
				page = append(page, change)
			}
		}
		return page, nil
	})
	s.Verify = o.verify
	*out.(*feed.Page[int64]), err = s.Serve(httptest.NewRequest(http.MethodGet, path, nil), nil)
	return err
}

// A copy ends equal to its store, whether its cursor is lost or an operator gave up changes that it
// has.
func TestCopyEndsEqualToItsStore(t *testing.T) {
	o, c := &owner{changes: page(0, 3*feed.PageSize), generation: "a"}, &copied{data: map[int64]int64{}}
	follow := feed.Copy[int64]{Name: "test", Path: "/feed", Store: c, Get: o.get,
		Sequence: func(change int64) int64 { return change }}
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
