package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/checkpoint"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/verify"
)

// history is a source with listings of 100 unsigned events each. It makes the events when they are
// read, and records the heap in use.
type history struct {
	listings int
	fail     error // of the second page

	pages int
	heap  uint64
}

const each = 100

func (h *history) events(listing int) []event.Record {
	records := make([]event.Record, each)
	for i := range records {
		r := &records[i]
		r.Sequence, r.Slug, r.CheckType, r.Outcome, r.SourceURLs = int64(listing*each+i+1), slug(listing),
			api.LinkCheck, api.OutcomeReachable, "[]"
		r.ID, r.CheckedAt = fmt.Sprint(r.Sequence), r.Sequence*1e6
		made, _ := r.Event()
		of, _ := event.New(made)
		r.ContentHash = of.ContentHash
		_ = r.Attach(api.Evidence{}) // cannot fail
	}
	return records
}

func slug(listing int) string { return fmt.Sprintf("listing-%06d", listing) }

func (h *history) Appended() (int64, error) { return int64(h.listings * each), nil }

func (h *history) Events(after int64, limit int) (records []event.Record, err error) {
	if h.pages++; h.pages == 2 && h.fail != nil {
		return h.events(0), h.fail
	}
	for listing := int(max(after, 0)) / each; listing < h.listings && len(records) < limit; listing++ {
		records = append(records, h.events(listing)...)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	h.heap = max(h.heap, m.HeapAlloc)
	return records, nil
}

func (h *history) Checkpoints(int64, int64, int) ([]checkpoint.Checkpoint, error) { return nil, nil }

func (h *history) Newest(int64) (checkpoint.Checkpoint, error) { return checkpoint.Checkpoint{}, nil }

func (h *history) Tiles(context.Context, []tlog.Tile) ([][]byte, error) {
	return nil, checkpoint.ErrNoTile
}

func (h *history) Summaries(after string, maxEvents int) (page []verify.Summary, err error) {
	first := 0
	if after != "" {
		_, _ = fmt.Sscanf(after, "listing-%d", &first)
		first++
	}
	for listing := first; listing < min(first+maxEvents/each, h.listings); listing++ {
		records := h.events(listing)
		state, err := event.StateOfRecords(slug(listing), records)
		if err != nil {
			return nil, err
		}
		stored, err := json.Marshal(state.Summary)
		if err != nil {
			return nil, err
		}
		page = append(page, verify.Summary{
			Slug: slug(listing), Sequence: int64((listing + 1) * each), Events: each, Stored: string(stored),
			Records: records,
		})
	}
	return page, nil
}

func TestMemoryDoesNotGrowWithTheEvents(t *testing.T) {
	heap := func(listings int) uint64 {
		h := &history{listings: listings}
		report, err := verify.Run(t.Context(), h, checkpoint.Keys{}, nil, nil)
		require.NoError(t, err)
		require.True(t, report.Fits, "%v", report.Findings)
		require.EqualValues(t, listings*each, report.Events)
		return h.heap
	}
	few, many := heap(30), heap(600)
	require.Less(t, many, few+4<<20, "57,000 more events need less than 4 MiB more")
}

func TestErrorOfTheSourceEndsTheVerification(t *testing.T) {
	h := &history{listings: 50, fail: errors.New("connection lost")}
	_, err := verify.Run(t.Context(), h, checkpoint.Keys{}, nil, nil)
	require.ErrorIs(t, err, h.fail)
	require.Equal(t, 2, h.pages, "no page is read after an error")
}
