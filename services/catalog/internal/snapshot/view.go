package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/query"
)

// View is a snapshot as of a given time.
type View struct {
	s     *Snapshot
	at    time.Time
	now   int64 // at, in Unix nanoseconds
	stale int64 // reviews before this time are stale

	cutoff  int // undisputed records before this position are verified, the others stale
	expired int // number of profiles that are no longer fresh
}

// MaxAge is the maximum time since the last successful poll of the source, after which View returns
// an error.
const MaxAge = 5 * time.Minute

// View returns the catalog now. It returns problem.Unavailable before the first load, and if no
// poll of the source succeeded within MaxAge: the data would be too old to serve.
func (l *Live) View() (View, error) {
	s, now := l.current.Load(), l.now()
	if s == nil {
		loading := problem.Unavailable(errNotLoaded)
		loading.Reported = true // by the readiness probe, until the service has started
		return View{}, loading
	}
	if age := now.Sub(*l.lastPoll.Load()); age > MaxAge { // by the monotonic clock, which UTC would remove
		return View{}, problem.Unavailable(fmt.Errorf("snapshot too old: no response from the database for %s",
			age.Round(time.Second)))
	}
	return s.At(now.UTC()), nil
}

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

// Now returns the time of the view.
func (v View) Now() time.Time { return v.at }

// Version returns a string that changes whenever a list does: with the data, and with a status or a
// profile's freshness. It is the same on all replicas with the same data.
func (v View) Version() string {
	b := strconv.AppendInt(nil, v.s.public, 10)
	b = strconv.AppendInt(append(b, '.'), int64(len(v.s.order)), 10)
	b = strconv.AppendInt(append(b, '.'), int64(v.cutoff), 10)
	return string(strconv.AppendInt(append(b, '.'), int64(v.expired), 10))
}

// FreeSetSize is the maximum number of records that the free tier sees.
const FreeSetSize = 10

type freeSet struct {
	cutoff    int
	positions []uint32 // ascending, so in list order
}

// free returns the free set: of the verified records that accept applications, those published
// first. It is the same for all callers.
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

// Selection is the result of a filter for one tier, in list order.
type Selection struct {
	view  View
	spans [2]span
	free  []uint32 // for the free tier: the matching members of the free set
	total int
}

// Select returns the records that match f and that the tier can see.
func (v View) Select(f query.Filter, tier api.Tier) Selection {
	sel := Selection{view: v, spans: v.spans(f)}
	if tier.AllRecords() {
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
		before := sort.Search(len(v.s.checked), func(i int) bool { return v.s.checked[i] < from })
		end = uint32(before) //nolint:gosec // as above
	}
	switch {
	case f.Verified == nil:
		return [2]span{{v.s.set(keyOf(f, 0)), 0, end}}
	case *f.Verified:
		return [2]span{{v.s.set(keyOf(f, undisputed)), 0, min(cutoff, end)}}
	default: // reviewed but not verified: the disputed records before the cutoff, and all reviewed records after it
		end = min(end, v.s.index.reviewed)
		cutoff = min(cutoff, end)
		return [2]span{{v.s.set(keyOf(f, disputed)), 0, cutoff}, {v.s.set(keyOf(f, 0)), cutoff, end}}
	}
}

// Total returns the number of records in the selection.
func (s Selection) Total() int { return s.total }

// Append appends the JSON of the records of a page to buf, separated by commas.
func (s Selection) Append(buf []byte, page params.Page) []byte {
	var positions [params.MaxLimit]uint32
	n := s.fill(positions[:min(page.Limit, params.MaxLimit)], page.Offset())
	for i, at := range positions[:n] {
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

// Record is one record as of the time of its View.
type Record struct {
	view View
	r    *record
}

// Find returns the record with the id, and false if there is none or the tier cannot see it.
func (v View) Find(id string, tier api.Tier) (Record, bool) {
	r, ok := v.s.byID[shardOf(id)][id]
	if ok && !tier.AllRecords() {
		ok = slices.ContainsFunc(v.free(), func(at uint32) bool { return v.s.order[at] == r })
	}
	return Record{v, r}, ok
}

// Append appends the record's JSON to buf.
func (r Record) Append(buf []byte) []byte { return r.view.append(buf, r.r) }

// AppendVersion appends bytes to buf that change whenever the record does, also when the clock
// changes its status or freshness.
func (r Record) AppendVersion(buf []byte) []byte {
	buf = append(strconv.AppendInt(buf, r.r.sequence, 10), '.')
	buf = append(append(buf, r.view.status(r.r)...), '.')
	return append(append(buf, r.view.freshness(r.r)...), '\n')
}

func (v View) append(buf []byte, r *record) []byte {
	buf = append(append(buf, r.text[:r.statusAt]...), v.status(r)...)
	if r.freshnessAt == 0 {
		return append(buf, r.text[r.statusAt:]...)
	}
	buf = append(append(buf, r.text[r.statusAt:r.freshnessAt]...), v.freshness(r)...)
	return append(buf, r.text[r.freshnessAt:]...)
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
		return "" // part of the body
	case v.now < r.freshUntil:
		return string(api.ProfileFresh)
	}
	return string(api.ProfileStale)
}
