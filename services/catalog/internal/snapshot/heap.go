package snapshot

import (
	"os"
	"runtime/debug"
)

// minHeadroom is the memory in bytes that the heap may grow between two collections at least, of small catalogs.
const minHeadroom = 18 << 20

// Growth of the heap between two collections in percent.
const (
	loadGrowth = 50 // during the first load and imports, which leave much garbage
	minGrowth  = 8
	maxGrowth  = 400
)

// limitHeap lets the heap of the process grow less between two collections than by Go's default of 100 percent if there are many records,
// because they stay, and more if there are few: it would fill up several times a second. GOGC in the environment overrides it.
func limitHeap(percent int) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}

// gcPercent returns the growth of a heap with the bytes of encoded records, in percent.
func gcPercent(records int64) int {
	return int(min(max(minHeadroom*100/max(records, 1), minGrowth), maxGrowth))
}
