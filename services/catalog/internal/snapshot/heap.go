package snapshot

import (
	"os"
	"runtime/debug"
)

// Growth of the heap between two collections.
const (
	minGrowth = 12       // percent, also during the first load
	maxGrowth = 400      // percent
	headroom  = 18 << 20 // bytes, within these limits
)

// growth returns the growth in percent for a snapshot of encoded records. Go's default of 100
// percent would double the memory of a large catalog, whose records stay, and collect a small one
// several times a second.
func growth(records int64) int {
	return int(min(max(headroom*100/max(records, 1), minGrowth), maxGrowth))
}

// limitHeap sets the growth in percent. GOGC in the environment overrides it.
func limitHeap(percent int) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}
