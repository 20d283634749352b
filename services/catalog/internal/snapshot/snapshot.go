// Package snapshot serves the published catalog from memory. A snapshot is immutable and indexed, and each record is encoded once. List
// and detail use nothing else.
//
// Records are in list order, and a filter is an intersection of bitmaps over their positions. A three-valued fact has two bitmaps, true and
// false. Unknown is in neither, so no filter matches it.
//
// Only two values depend on the clock: the verification status and the freshness of the company profile. They are not part of a record's
// encoded form but inserted into each response. A record with an undisputed latest review is verified for 14 days after it. The list is
// ordered by latest review, newest first, so the verified records are the undisputed ones before a cutoff position, which a binary search
// finds. A status change therefore needs no timer and no new snapshot; only changed data does.
//
// A new snapshot shares the encoded records that did not change with the previous one. It costs a new index.
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

// Snapshot is the catalog at one position of the change sequence. It is immutable and safe for concurrent use.
type Snapshot struct {
	sequence int64
	byID     map[string]*record
	leftOut  map[string]bool // ids of published listings that cannot be decoded
	order    []*record       // in list order
	checked  []int64         // order[i].checked, contiguous because every request searches them
	profiles []int64         // freshUntil of all profiles that have one, ascending
	index    index
	bytes    int64 // of the encoded records

	// Caches of the latest results. Requests check that an entry is still valid before they use it.
	cutoff  atomic.Int64
	free    atomic.Pointer[freeSet]
	filters setCache
}

// change is the new state of one listing. record is nil if the listing is not public or was left out.
type change struct {
	id      string
	record  *record
	leftOut bool
}

var empty = new(Snapshot).apply(nil, 0)

// apply returns the snapshot after the changes, at the given sequence. changes must not have two entries for one id.
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

// compare orders records as lists do: by latest factual review, newest first and never reviewed last, then by the bytes of the id.
func compare(a, b *record) int {
	return cmp.Or(cmp.Compare(b.checked, a.checked), cmp.Compare(a.id, b.id))
}

// Len returns the number of published records.
func (s *Snapshot) Len() int { return len(s.order) }

// At returns a view of the snapshot as of now.
func (s *Snapshot) At(now time.Time) View {
	v := View{s: s, at: now, now: unixNanos(now), stale: unixNanos(now.Add(-api.FreshnessWindow))}
	// Try the cutoff of the previous request: it rarely changes.
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

// never is the review time of a record without a factual review. It is older than every other.
const never = math.MinInt64

// unixNanos returns t in nanoseconds since 1970, capped to the range of int64 (the years 1678 to 2261).
func unixNanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1678:
		return never + 1
	case y > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}
