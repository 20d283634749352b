package snapshot

import (
	"os"
	"runtime/debug"
)

// minHeadroom is the memory in bytes that the heap may grow between two collections at least.
const minHeadroom = 32 << 20

// limitHeap lets the heap of the process grow less between two collections than by Go's default of 100 percent if there are many records,
// because they stay, and more if there are few: it would fill up several times a second. GOGC in the environment overrides it.
func limitHeap(records int64) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent(records))
	}
}

// gcPercent returns the growth of a heap with the bytes of encoded records, in percent.
func gcPercent(records int64) int {
	return int(min(max(minHeadroom*100/max(records, 1), 10), 400))
}
