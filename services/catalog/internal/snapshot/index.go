package snapshot

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/query"
)

// index maps each filter condition to the positions of the records that meet it.
type index struct {
	reviewed   uint32 // records before this position have a factual review
	undisputed *roaring.Bitmap
	disputed   *roaring.Bitmap
	facts      [len(api.BoolFacts)][2]*roaring.Bitmap // false, true
	categories []*roaring.Bitmap                      // by the order of api.Categories
	provinces  []*roaring.Bitmap                      // by the order of api.Provinces
	countries  map[country]*roaring.Bitmap
	candidates []uint32 // records that can be in the free set, first published first
}

func newIndex(order []*record) index {
	x := index{
		undisputed: roaring.New(), disputed: roaring.New(),
		categories: bitmaps(len(api.Categories)), provinces: bitmaps(len(api.Provinces)),
		countries: map[country]*roaring.Bitmap{},
	}
	for i := range x.facts {
		x.facts[i] = [2]*roaring.Bitmap{roaring.New(), roaring.New()}
	}
	for i, r := range order {
		at := uint32(i) //nolint:gosec // positions are below 2^32
		if r.checked != never {
			x.reviewed = at + 1
		}
		if r.flags&undisputed != 0 {
			x.undisputed.Add(at)
			if r.flags&open != 0 {
				x.candidates = append(x.candidates, at)
			}
		}
		if r.flags&disputed != 0 {
			x.disputed.Add(at)
		}
		for fact, value := range r.facts {
			if value > 0 {
				x.facts[fact][value-1].Add(at)
			}
		}
		x.categories[r.category].Add(at)
		for p := r.provinces; p != 0; p &= p - 1 {
			x.provinces[bits.TrailingZeros16(p)].Add(at)
		}
		for _, c := range r.countries {
			set := x.countries[c]
			if set == nil {
				set = roaring.New()
				x.countries[c] = set
			}
			set.Add(at)
		}
	}
	slices.SortFunc(x.candidates, func(a, b uint32) int { return comparePublished(order[a], order[b]) })
	return x
}

func bitmaps(n int) []*roaring.Bitmap {
	out := make([]*roaring.Bitmap, n)
	for i := range out {
		out[i] = roaring.New()
	}
	return out
}

// setKey identifies a set of positions by the conditions of a filter that depend on neither the
// clock nor a date.
type setKey struct {
	country   country
	province  int8 // index in api.Provinces + 1; 0 is no condition
	category  int8 // index in api.Categories + 1; 0 is no condition
	facts     facts
	condition flags // undisputed, disputed, or neither
	search    query.Search
}

func keyOf(f query.Filter, condition flags) setKey {
	k := setKey{condition: condition, search: f.Search}
	copy(k.country[:], f.Country)
	if f.Province != "" {
		k.province = int8(provinceIndex(f.Province) + 1) //nolint:gosec // 13 provinces
	}
	if f.Category != "" {
		k.category = int8(slices.Index(api.Categories, f.Category) + 1) //nolint:gosec // 4 categories
	}
	for i, value := range f.Facts {
		k.facts.set(i, value)
	}
	return k
}

// terms returns the bitmaps to intersect for k. No bitmaps means all positions.
func (x *index) terms(k setKey) []*roaring.Bitmap {
	terms := make([]*roaring.Bitmap, 0, 8)
	switch {
	case k.province > 0: // implies the country
		terms = append(terms, x.provinces[k.province-1])
	case k.country != country{}:
		set := x.countries[k.country]
		if set == nil {
			set = roaring.New()
		}
		terms = append(terms, set)
	}
	if k.category > 0 {
		terms = append(terms, x.categories[k.category-1])
	}
	for fact, value := range k.facts {
		if value > 0 {
			terms = append(terms, x.facts[fact][value-1])
		}
	}
	switch k.condition {
	case undisputed:
		terms = append(terms, x.undisputed)
	case disputed:
		terms = append(terms, x.disputed)
	}
	return terms
}

// setCache caches the intersections of one snapshot, so that reading all pages of a filter
// intersects once. It is bounded, because there are too many possible filters.
type setCache struct {
	mu   sync.RWMutex
	sets map[setKey]*roaring.Bitmap
}

const maxCachedSets = 256

// set returns the positions for k. nil means all positions.
func (s *Snapshot) set(k setKey) *roaring.Bitmap {
	c := &s.filters
	c.mu.RLock()
	set, ok := c.sets[k]
	c.mu.RUnlock()
	if ok {
		return set
	}
	sets := s.index.terms(k)
	if k.search != (query.Search{}) {
		sets = append(sets, s.found(k.search))
	} else if len(sets) < 2 {
		return slices.Concat(sets, []*roaring.Bitmap{nil})[0]
	}
	set = roaring.FastAnd(sets...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[setKey]*roaring.Bitmap{}
	}
	for other := range c.sets {
		if len(c.sets) < maxCachedSets {
			break
		}
		delete(c.sets, other)
	}
	c.sets[k] = set
	return set
}

// span is the part [from, to) of a set of positions. A nil set contains all positions.
type span struct {
	set      *roaring.Bitmap
	from, to uint32
}

// below returns the number of members of the set before position n.
func (s span) below(n uint32) int {
	switch {
	case s.set == nil:
		return int(n)
	case n == 0:
		return 0
	}
	return int(s.set.Rank(n - 1)) //nolint:gosec // at most n
}

func (s span) count() int {
	if s.to <= s.from {
		return 0
	}
	return s.below(s.to) - s.below(s.from)
}

func (s span) contains(at uint32) bool {
	return s.from <= at && at < s.to && (s.set == nil || s.set.Contains(at))
}

// fill copies members into dst, after skipping the first skip, and returns the number copied. skip
// must be less than count.
func (s span) fill(dst []uint32, skip int) int {
	if s.set == nil {
		first := s.from + uint32(skip) //nolint:gosec // below count
		n := min(len(dst), int(s.to-first))
		for i := range n {
			dst[i] = first + uint32(i) //nolint:gosec // below s.to
		}
		return n
	}
	first, err := s.set.Select(uint32(s.below(s.from) + skip)) //nolint:gosec // below count
	if err != nil {
		return 0
	}
	it := s.set.Iterator()
	it.AdvanceIfNeeded(first)
	n := 0
	for ; n < len(dst) && it.HasNext() && it.PeekNext() < s.to; n++ {
		dst[n] = it.Next()
	}
	return n
}
