package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/compress"
	"opportunity.internal/services/catalog/internal/oracle"
	"opportunity.internal/services/catalog/internal/snapshot"
)

// source is a snapshot.Source of rows in memory.
type source []snapshot.Row

func (s source) Sequence(context.Context) (int64, error)           { return int64(len(s)), nil }
func (s source) Mark(context.Context, int64) (api.FeedMark, error) { return api.FeedMark{}, nil }
func (s source) Changes(_ context.Context, after int64, each func(snapshot.Row) error) error {
	for _, row := range s[after:] {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// add adds n rows of distinct records.
func (s *source) add(t *testing.T, n int, now time.Time) {
	t.Helper()
	for _, r := range oracle.Records(uint64(len(*s)), n, now) {
		document, err := json.Marshal(r.Entry.Listing)
		require.NoError(t, err)
		*s = append(*s, snapshot.Row{Sequence: int64(len(*s) + 1), ID: r.Entry.ID, PublishedAt: r.Entry.PublishedAt, Document: document})
	}
}

func TestListIsCompressedAheadOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows source
		live := snapshot.NewLive(&rows, time.Now, slog.New(slog.DiscardHandler))
		a := API{Catalog: live, Compressed: compress.NewCache(compress.MaxBytes)}
		ahead := a.CompressAhead()
		require.NoError(t, ahead(t.Context()), "before the first load")
		for _, n := range []int{300, 50} { // the load, and changes
			rows.add(t, n, time.Now())
			require.NoError(t, live.Poll(t.Context()))
			require.NoError(t, ahead(t.Context()), "changed since the call before")
			stopped, stop := context.WithCancel(t.Context())
			stop()
			require.NoError(t, ahead(stopped))
			require.NoError(t, ahead(t.Context()), "the run before was stopped, so there is work left")
			view, err := live.View()
			require.NoError(t, err)
			compressed, missing := runs(a, view)
			require.NotZero(t, compressed)
			require.Zero(t, missing)
		}
	})
}

func TestChangingListIsNotCompressedAhead(t *testing.T) {
	var rows source
	live := snapshot.NewLive(&rows, time.Now, slog.New(slog.DiscardHandler))
	a := API{Catalog: live, Compressed: compress.NewCache(compress.MaxBytes)}
	ahead := a.CompressAhead()
	for range 3 {
		rows.add(t, 20, time.Now())
		require.NoError(t, live.Poll(t.Context()))
		require.NoError(t, ahead(t.Context()))
	}
	view, err := live.View()
	require.NoError(t, err)
	compressed, missing := runs(a, view)
	require.Zero(t, compressed)
	require.NotZero(t, missing)
}

// runs counts the runs of a view that the cache has, and those that it lacks. It then has all.
func runs(a API, view snapshot.View) (compressed, missing int) {
	start := firstRun
	for run := range view.Runs() {
		if _, built := a.Compressed.Prepare(1, part{start, run}); built {
			missing++
		} else {
			compressed++
		}
		start = laterRun
	}
	return compressed, missing
}
