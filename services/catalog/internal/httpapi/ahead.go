package httpapi

import (
	"context"
	"runtime/debug"
	"time"

	"opportunity.internal/services/catalog/internal/compress"
)

// maxAhead is the memory for parts that are compressed ahead of requests. The rest of the cache is for the ends of pages, and for lists with
// filters.
const maxAhead = compress.MaxBytes * 7 / 8

// muchCompressed is the size of compressed parts from which on it is worth a collection to return garbage to the operating system.
const muchCompressed = 4 << 20

// CompressAhead returns the work of a loop: it compresses the list of all records in runs, as long as they fit in the cache, so that the first
// request for a page finds most of it compressed. It waits until no record or status has changed between two calls: during an import, the
// next change would undo most of the work. One goroutine uses at most half of a processor, because requests come first.
func (a API) CompressAhead() func(context.Context) error {
	var seen, done string // versions of the list
	pass := 0
	return func(ctx context.Context) error {
		view, err := a.Catalog.View()
		if err != nil {
			return nil //nolint:nilerr // not loaded yet, or an outage, which the loop of the snapshot reports
		}
		before := seen
		if seen = view.Version(); seen != before || seen == done {
			return nil
		}
		pass++
		size, compressed, start := 0, 0, firstRun
		for run := range view.Runs() {
			begun := time.Now()
			more, built := a.Compressed.Prepare(pass, part{start, run})
			if size += more; size > maxAhead {
				break
			}
			if built {
				if !pause(ctx, time.Since(begun)) {
					return nil
				}
				compressed += more
			}
			start = laterRun
		}
		a.Compressed.EndPass(pass)
		done = seen
		if compressed > muchCompressed {
			debug.FreeOSMemory() // what the cache has replaced, and garbage of the load
		}
		return nil
	}
}

// pause waits, and returns false if ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
