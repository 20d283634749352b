// Package snapshot serves the published catalog from memory. A snapshot is immutable and indexed,
// and each record is encoded once. List and detail use nothing else.
//
// Records are in list order, and a filter is an intersection of bitmaps over their positions. A
// three-valued fact has two bitmaps, true and false. Unknown is in neither, so no filter matches
// it.
//
// Only two values depend on the clock: the verification status and the freshness of the company
// profile. They are not part of a record's encoded form but inserted into each response. A record
// with an undisputed latest review is verified for 14 days after it. The list is ordered by latest
// review, newest first, so the verified records are the undisputed ones before a cutoff position,
// which a binary search finds. A status change therefore needs no timer and no new snapshot; only
// changed data does.
//
// The conditions of the search are terms. A term has the slots of its records: a position would
// change with each review. Snapshots share the terms, and each maps slots to its positions.
//
// A new snapshot shares the encoded records that did not change with the previous one. It costs a
// new index and a copy of the list order.
package snapshot

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
)

// Snapshot is the catalog at one position of the change sequence. It is immutable and safe for
// concurrent use.
type Snapshot struct {
	sequence int64 // up to which it has all changes
	public   int64 // of the latest change that consumers can see
	byID     shards
	leftOut  map[string]bool // ids of published listings that cannot be decoded
	order    []*record       // in list order
	checked  []int64         // order[i].checked, contiguous because every request searches them
	profiles []int64         // freshUntil of all profiles that have one, ascending
	index    index
	terms    *terms
	bySlot   []uint32 // position + 1 by the slot of a record; 0 for other slots
	bytes    int64    // of the encoded records

	buildTime time.Duration // with the time to read the changes
	builtAt   time.Time

	// Caches of the latest results. Requests check that an entry is still valid before they use it.
	cutoff  atomic.Int64
	free    atomic.Pointer[freeSet]
	filters setCache
}

// record is a published record: its encoded form, and the properties that filters and the list
// order use. Times are in Unix nanoseconds.
type record struct {
	id   string
	text []byte // JSON of the api.Opportunity, without the two values that depend on the clock

	statusAt uint32 // offset in text at which to insert verification.status
	// offset in text at which to insert companyProfile.freshness; 0 if it does not depend on the
	// clock
	freshnessAt uint32

	sequence   int64 // of the latest change that consumers can see
	checked    int64 // time of the latest factual review, or never
	published  int64 // time of publication
	freshUntil int64 // of the profile, if freshnessAt > 0

	flags     flags
	category  uint8 // index in api.Categories
	facts     facts
	provinces uint16 // bit i: residents of api.Provinces[i] are eligible, with a source
	countries []country

	terms uint64 // hash of its terms
	slot  uint32 // stands for it in the postings of its terms
}

// country is an ISO 3166-1 alpha-2 code.
type country [2]byte

// flags are the boolean properties of a record.
type flags uint8

const (
	undisputed flags = 1 << iota // verified until api.FreshnessWindow after its latest review, then stale
	disputed                     // reviewed, and needs a new review
	open                         // accepts applications
)

// facts are the values of a record, or the conditions of a filter, in the order of api.BoolFacts: 0
// is unknown or no condition, 1 is false and 2 is true.
type facts [len(api.BoolFacts)]uint8

func (f *facts) set(i int, value *bool) {
	switch {
	case value == nil:
	case *value:
		f[i] = 2
	default:
		f[i] = 1
	}
}

// change is the new state of one listing. record is nil if the listing is not public or was left
// out.
type change struct {
	id      string
	record  *record
	terms   string // of the record
	leftOut bool
}

var empty = new(Snapshot).apply(nil, 0, 0)

// apply returns the snapshot after the changes, at the given sequences. changes must not have two
// entries for one id.
func (s *Snapshot) apply(changes []change, sequence, public int64) *Snapshot {
	next := &Snapshot{sequence: sequence, public: public, byID: s.byID, leftOut: maps.Clone(s.leftOut), bytes: s.bytes,
		terms: s.terms}
	if len(s.order) == 0 {
		next.terms = newTerms()
	}
	if next.leftOut == nil {
		next.leftOut = map[string]bool{}
	}
	var removed, added []*record
	var copied [len(next.byID)]bool
	for _, c := range changes {
		at := shardOf(c.id)
		if !copied[at] {
			copied[at], next.byID[at] = true, maps.Clone(s.byID[at])
		}
		if next.byID[at] == nil {
			next.byID[at] = make(map[string]*record, len(changes)/len(next.byID))
		}
		old := next.byID[at][c.id]
		if old != nil {
			removed = append(removed, old)
			next.bytes -= int64(len(old.text))
		}
		delete(next.byID[at], c.id)
		delete(next.leftOut, c.id)
		if c.leftOut {
			next.leftOut[c.id] = true
		}
		if c.record != nil {
			if old != nil && old.terms == c.record.terms {
				c.record.slot = old.slot
			} else {
				c.record.slot = next.terms.add(c.terms)
			}
			next.byID[at][c.id] = c.record
			added = append(added, c.record)
			next.bytes += int64(len(c.record.text))
		}
	}
	next.order = merged(s.order, removed, added, compare)
	next.checked = merged(s.checked, checkedOf(removed), checkedOf(added),
		func(a, b int64) int { return cmp.Compare(b, a) })
	next.profiles = merged(s.profiles, profilesOf(removed), profilesOf(added), cmp.Compare[int64])
	next.index = newIndex(next.order)
	next.terms, next.bySlot = next.terms.settle(next.order)
	return next
}

// shards are records by a hash of the id, then by id. A change copies only the maps of its records.
type shards [512]map[string]*record

var seed = maphash.MakeSeed()

func shardOf(id string) uint64 { return maphash.String(seed, id) % uint64(len(shards{})) }

// merged returns the sorted list without removed, which it contains, and with added. It sorts both.
func merged[T any](list, removed, added []T, compare func(a, b T) int) []T {
	slices.SortFunc(removed, compare)
	slices.SortFunc(added, compare)
	out := make([]T, 0, len(list)-len(removed)+len(added))
	for len(removed)+len(added) > 0 {
		add := len(removed) == 0 || len(added) > 0 && compare(added[0], removed[0]) < 0
		value := &removed
		if add {
			value = &added
		}
		// Double the range to search, since the next position may be close.
		within := 1
		for within < len(list) && compare(list[within-1], (*value)[0]) < 0 {
			within *= 2
		}
		at, _ := slices.BinarySearchFunc(list[:min(within, len(list))], (*value)[0], compare)
		out, list = append(out, list[:at]...), list[at:]
		if add {
			out = append(out, added[0])
		} else {
			list = list[1:]
		}
		*value = (*value)[1:]
	}
	return append(out, list...)
}

func checkedOf(records []*record) []int64 {
	times := make([]int64, len(records))
	for i, r := range records {
		times[i] = r.checked
	}
	return times
}

func profilesOf(records []*record) (times []int64) {
	for _, r := range records {
		if r.freshnessAt > 0 {
			times = append(times, r.freshUntil)
		}
	}
	return times
}

// compare orders records as lists do: by latest factual review, newest first and never reviewed
// last, then by the bytes of the id.
func compare(a, b *record) int {
	return cmp.Or(cmp.Compare(b.checked, a.checked), cmp.Compare(a.id, b.id))
}

// Len returns the number of published records.
func (s *Snapshot) Len() int { return len(s.order) }

// never is the review time of a record without a factual review. It is older than every other.
const never = math.MinInt64

// unixNanos returns t in nanoseconds since 1970, capped to the range of int64 (the years 1678 to
// 2261).
func unixNanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1678:
		return never + 1
	case y > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}
