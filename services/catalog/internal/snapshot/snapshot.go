// Package snapshot is the published catalog in memory: immutable, indexed, each record encoded once. List and detail are
// answered from it alone.
//
// Records stand in list order, and a filter is an intersection of bitmaps over their positions. Where a fact has three values
// there are two bitmaps, one for true and one for false; the unknown ones are in neither and so match neither.
//
// Time. The encoded form of a record has holes for the only two values that move with the clock, the verification status and
// the freshness of the company profile; they are filled when the record is written. A record whose latest review is undisputed
// is verified up to 14 days after it, and because the list runs from the latest review to the oldest, the verified records at
// any instant are the undisputed ones before one position, which a binary search finds. So nothing has to happen when a status
// turns: no timer can be late, and no snapshot has to be built for it. New snapshots come from changed data only.
//
// Memory. A snapshot shares the encoded records that did not change with the one before it; replacing one costs the index.
package snapshot

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
)

// Snapshot is the catalog at one position of the change sequence. It never changes and is safe for concurrent use.
type Snapshot struct {
	sequence int64
	byID     map[string]*record
	leftOut  map[string]bool // published listings that could not be made a record of
	order    []*record       // as lists show them
	checked  []int64         // order[i].checked; side by side because every request searches them
	profiles []int64         // freshUntil of all profiles that have one, ascending
	index    index
	bytes    int64 // of the encoded records

	// What the last request computed; each is a cache that is checked before it is used.
	cutoff  atomic.Int64
	free    atomic.Pointer[freeSet]
	filters setCache
}

// change is what became of one listing: its new record, or nil where it is not public any more or had to be left out.
type change struct {
	id      string
	record  *record
	leftOut bool
}

var empty = new(Snapshot).apply(nil, 0)

// with is the snapshot after the changes, of which each id has at most one, at that position of the change sequence.
func (s *Snapshot) apply(changes []change, sequence int64) *Snapshot {
	next := &Snapshot{sequence: sequence, byID: maps.Clone(s.byID), leftOut: maps.Clone(s.leftOut)}
	if next.byID == nil {
		next.byID, next.leftOut = make(map[string]*record, len(changes)), map[string]bool{}
	}
	var added []*record
	for _, c := range changes {
		delete(next.byID, c.id)
		delete(next.leftOut, c.id)
		if c.leftOut {
			next.leftOut[c.id] = true
		}
		if c.record != nil {
			next.byID[c.id] = c.record
			added = append(added, c.record)
		}
	}
	slices.SortFunc(added, compare)
	next.order = make([]*record, 0, len(next.byID))
	for _, r := range s.order {
		if next.byID[r.id] != r {
			continue
		}
		for len(added) > 0 && compare(added[0], r) < 0 {
			next.order, added = append(next.order, added[0]), added[1:]
		}
		next.order = append(next.order, r)
	}
	next.order = append(next.order, added...)

	next.checked = make([]int64, len(next.order))
	for i, r := range next.order {
		next.checked[i] = r.checked
		next.bytes += int64(len(r.body))
		if r.freshnessAt > 0 {
			next.profiles = append(next.profiles, r.freshUntil)
		}
	}
	slices.Sort(next.profiles)
	next.index = newIndex(next.order)
	return next
}

// compare is the order of lists: latest factual review first, those never reviewed last, then the id by bytes.
func compare(a, b *record) int {
	return cmp.Or(cmp.Compare(b.checked, a.checked), cmp.Compare(a.id, b.id))
}

// Len is the number of published records.
func (s *Snapshot) Len() int { return len(s.order) }

// At looks at the snapshot from an instant. Everything a View says is true at that instant.
func (s *Snapshot) At(now time.Time) View {
	v := View{s: s, at: now, now: unixNanos(now), stale: unixNanos(now.Add(-api.FreshnessWindow))}
	// requests come with nearly the same instant: the position that was right for the last one nearly always is for this one
	v.cutoff = int(s.cutoff.Load())
	if !s.isCutoff(v.cutoff, v.stale) {
		v.cutoff = sort.Search(len(s.checked), func(i int) bool { return s.checked[i] < v.stale })
		s.cutoff.Store(int64(v.cutoff))
	}
	v.expired = sort.Search(len(s.profiles), func(i int) bool { return s.profiles[i] > v.now })
	return v
}

func (s *Snapshot) isCutoff(i int, stale int64) bool {
	return i <= len(s.checked) && (i == 0 || s.checked[i-1] >= stale) && (i == len(s.checked) || s.checked[i] < stale)
}

// never stands for the review date of a record without a factual review: older than every other.
const never = math.MinInt64

// instant is t in nanoseconds since 1970, held within what 64 bits can say (the years 1678 to 2261).
func unixNanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1678:
		return never + 1
	case y > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}
