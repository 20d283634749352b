package snapshot

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/services/catalog/internal/query"
)

// View is a snapshot at an instant.
type View struct {
	s     *Snapshot
	at    time.Time
	now   int64 // at, as instants are kept
	stale int64 // reviews before this instant are stale at now

	cutoff  int // undisputed records before this position are verified, those from it on are stale
	expired int // how many profiles are not fresh any more
}

// Now is the instant.
func (v View) Now() time.Time { return v.at }

// Version changes whenever a list does: with the data, with every status and freshness that turns, and with every record that
// becomes public at its time. It is the same on every replica that has the same data.
func (v View) Version() string {
	b := strconv.AppendInt(nil, v.s.sequence, 10)
	b = strconv.AppendInt(append(b, '.'), int64(len(v.s.order)), 10)
	b = strconv.AppendInt(append(b, '.'), int64(v.cutoff), 10)
	return string(strconv.AppendInt(append(b, '.'), int64(v.expired), 10))
}

// FreeSetSize is how many records the free tier sees at most.
const FreeSetSize = 10

// freeSet is the free set while the cutoff stands where it stood.
type freeSet struct {
	cutoff    int
	positions []uint32 // ascending, which is list order
}

// free is the same for every caller: of the records that are verified and take applications, the longest-published.
func (v View) free() []uint32 {
	if f := v.s.free.Load(); f != nil && f.cutoff == v.cutoff {
		return f.positions
	}
	f := &freeSet{cutoff: v.cutoff, positions: make([]uint32, 0, FreeSetSize)}
	for _, at := range v.s.index.candidates {
		if int(at) < v.cutoff {
			if f.positions = append(f.positions, at); len(f.positions) == FreeSetSize {
				break
			}
		}
	}
	slices.Sort(f.positions)
	v.s.free.Store(f)
	return f.positions
}

// comparePublished orders by time of publication, then by id.
func comparePublished(a, b *record) int {
	return cmp.Or(cmp.Compare(a.published, b.published), cmp.Compare(a.id, b.id))
}

// Selection is the result of a filter for a caller, in list order.
type Selection struct {
	view  View
	spans [2]span
	free  []uint32 // where the caller is limited to the free set: its members that match
	total int
}

// Select finds what a caller of that tier may see of the records that f describes.
func (v View) Select(f query.Filter, tier api.Tier) Selection {
	sel := Selection{view: v, spans: v.spans(f)}
	if tier != api.Free {
		sel.total = sel.spans[0].count() + sel.spans[1].count()
		return sel
	}
	sel.free = make([]uint32, 0, FreeSetSize)
	for _, at := range v.free() {
		if sel.spans[0].contains(at) || sel.spans[1].contains(at) {
			sel.free = append(sel.free, at)
		}
	}
	sel.total = len(sel.free)
	return sel
}

func (v View) spans(f query.Filter) [2]span {
	end, cutoff := uint32(len(v.s.order)), uint32(v.cutoff) //nolint:gosec // positions are below 2^32
	if f.CheckedAfter != nil {
		from := unixNanos(*f.CheckedAfter)
		end = uint32(sort.Search(len(v.s.checked), func(i int) bool { return v.s.checked[i] < from })) //nolint:gosec // as above
	}
	switch {
	case f.Verified == nil:
		return [2]span{{v.s.set(keyOf(f, 0)), 0, end}}
	case *f.Verified:
		return [2]span{{v.s.set(keyOf(f, undisputed)), 0, min(cutoff, end)}}
	default: // reviewed, but not verified: before the cutoff the disputed ones, behind it all that were ever reviewed
		end = min(end, v.s.index.reviewed)
		cutoff = min(cutoff, end)
		return [2]span{{v.s.set(keyOf(f, disputed)), 0, cutoff}, {v.s.set(keyOf(f, 0)), cutoff, end}}
	}
}

// Total is the number of records in the selection.
func (s Selection) Total() int { return s.total }

// Append writes the records of a page to buf, separated by commas.
func (s Selection) Append(buf []byte, page params.Page) []byte {
	var positions [params.MaxLimit]uint32
	for i, at := range positions[:s.fill(positions[:min(page.Limit, params.MaxLimit)], page.Offset())] {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = s.view.append(buf, s.view.s.order[at])
	}
	return buf
}

func (s Selection) fill(dst []uint32, skip int) int {
	if skip >= s.total {
		return 0
	}
	if s.free != nil {
		return copy(dst, s.free[skip:])
	}
	n := 0
	if first := s.spans[0].count(); skip < first {
		n, skip = s.spans[0].fill(dst, skip), 0
	} else {
		skip -= first
	}
	if n < len(dst) && skip < s.spans[1].count() {
		n += s.spans[1].fill(dst[n:], skip)
	}
	return n
}

// Record is one record at the instant of its View.
type Record struct {
	view View
	r    *record
}

// Find gives the record of that id; false where there is none that a caller of that tier may see.
func (v View) Find(id string, tier api.Tier) (Record, bool) {
	r, ok := v.s.byID[id]
	if ok && tier == api.Free {
		ok = slices.ContainsFunc(v.free(), func(at uint32) bool { return v.s.order[at] == r })
	}
	return Record{v, r}, ok
}

// Append writes the record to buf.
func (r Record) Append(buf []byte) []byte { return r.view.append(buf, r.r) }

// Version changes whenever the record does, be it with the clock.
func (r Record) Version() string {
	return strconv.FormatInt(r.r.sequence, 10) + "." + r.view.status(r.r) + "." + r.view.freshness(r.r)
}

func (v View) append(buf []byte, r *record) []byte {
	buf = append(buf, r.body[:r.statusAt]...)
	buf = append(buf, v.status(r)...)
	if r.freshnessAt == 0 {
		return append(buf, r.body[r.statusAt:]...)
	}
	buf = append(buf, r.body[r.statusAt:r.freshnessAt]...)
	buf = append(buf, v.freshness(r)...)
	return append(buf, r.body[r.freshnessAt:]...)
}

func (v View) status(r *record) string {
	switch {
	case r.checked == never:
		return string(api.Unverified)
	case r.flags&undisputed == 0:
		return string(api.NeedsReview)
	case r.checked < v.stale:
		return string(api.Stale)
	}
	return string(api.Verified)
}

func (v View) freshness(r *record) string {
	switch {
	case r.freshnessAt == 0:
		return "" // written into the body already
	case v.now < r.freshUntil:
		return string(api.ProfileFresh)
	}
	return string(api.ProfileStale)
}
