package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/services/catalog/internal/query"
)

// Kinds of terms: the first byte of a term.
const (
	word        = "w" // of the name, the subcategory or the summary
	status      = "a"
	language    = "l" // all words of one
	unit        = "p"
	subcategory = "s" // all its words
)

// termsOf returns the terms of a record, each with a newline after it.
func termsOf(o api.Opportunity) string {
	var b strings.Builder
	add := func(kind, text string) {
		if text != "" {
			b.WriteString(kind + text + "\n")
		}
	}
	sub := ""
	if o.Subcategory != nil {
		sub = query.Words(*o.Subcategory)
	}
	for w := range strings.FieldsSeq(query.Words(o.Company.Name) + " " + sub + " " + query.Words(o.Summary)) {
		add(word, w)
	}
	add(subcategory, sub)
	for _, l := range o.Facts.Languages {
		add(language, query.Words(l))
	}
	add(status, string(o.Facts.ApplicationStatus))
	if o.Facts.Pay != nil {
		add(unit, string(o.Facts.Pay.Unit))
	}
	return b.String()
}

// terms maps terms to slots. A slot stands for a record for as long as it has the same terms.
// Snapshots share the terms: each ignores the slots of records that it does not have.
type terms struct {
	mu     sync.RWMutex // one goroutine adds
	byText map[string]*term
	sorted []*term
	added  []*term                    // not yet in sorted
	starts map[string]*roaring.Bitmap // slots by the first one and two letters of words, which many words share
	slots  uint32                     // in use or unused
	unused []uint32
}

type term struct {
	text  string
	slots []uint32
}

func newTerms() *terms {
	return &terms{byText: map[string]*term{}, starts: map[string]*roaring.Bitmap{}}
}

// add returns the slot for a record with these terms. Searches find it after settle.
func (t *terms) add(text string) (slot uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.unused) - 1; last >= 0 {
		slot, t.unused = t.unused[last], t.unused[:last]
	} else {
		slot, t.slots = t.slots, t.slots+1
	}
	for line := range strings.Lines(text) {
		name := line[:len(line)-1]
		of := t.byText[name]
		if of == nil {
			of = &term{text: strings.Clone(name)}
			t.byText[of.text] = of
			t.added = append(t.added, of)
		}
		if n := len(of.slots); n == 0 || of.slots[n-1] != slot {
			of.slots = append(of.slots, slot)
			t.start(of.text, slot)
		}
	}
	return slot
}

// start adds slots to the starts of a term.
func (t *terms) start(text string, slots ...uint32) {
	text, isWord := strings.CutPrefix(text, word)
	letters := 0
	for at := range text + "." { // the last start is the whole text
		if letters > 0 && isWord {
			set := t.starts[text[:at]]
			if set == nil {
				set = roaring.New()
				t.starts[strings.Clone(text[:at])] = set
			}
			set.AddMany(slots)
		}
		if letters++; letters > maxStart {
			return
		}
	}
}

const maxStart = 2

// settle returns the terms of the records, and their positions + 1 by slot. If too many slots are
// of other records, it returns other terms, without them.
func (t *terms) settle(order []*record) (*terms, []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sorted, t.added = merged(t.sorted, nil, t.added, compareTerms), nil
	bySlot := make([]uint32, t.slots)
	for i, r := range order {
		bySlot[r.slot] = uint32(i) + 1 //nolint:gosec // positions are below 2^32
	}
	if int(t.slots)-len(t.unused) < 2*len(order)+1000 {
		return t, bySlot
	}
	clean := newTerms()
	clean.slots = t.slots
	for slot, position := range bySlot {
		if position == 0 {
			clean.unused = append(clean.unused, uint32(slot)) //nolint:gosec // below t.slots
		}
	}
	for _, of := range t.sorted {
		kept := slices.DeleteFunc(slices.Clone(of.slots), func(slot uint32) bool { return bySlot[slot] == 0 })
		if len(kept) > 0 {
			of = &term{of.text, slices.Clip(kept)}
			clean.byText[of.text] = of
			clean.sorted = append(clean.sorted, of)
			clean.start(of.text, of.slots...)
		}
	}
	return clean, bySlot
}

func compareTerms(a, b *term) int { return cmp.Compare(a.text, b.text) }

// condition matches records with a term that begins with prefix and that match accepts. A nil match
// accepts all.
type condition struct {
	prefix string
	match  func(text string) bool
}

func conditions(q query.Search) (all []condition) {
	words := strings.Fields(query.Words(q.Q))
	slices.Sort(words)
	for i, w := range words {
		if i+1 == len(words) || !strings.HasPrefix(words[i+1], w) { // otherwise the next one implies it
			all = append(all, condition{word + w, nil})
		}
	}
	exactly := func(kind, text string) {
		if text != "" {
			all = append(all, condition{kind + text, func(of string) bool { return of == kind+text }})
		}
	}
	exactly(status, string(q.ApplicationStatus))
	exactly(unit, string(q.PayUnit))
	exactly(subcategory, query.Words(q.Subcategory))
	if q.Language != "" {
		all = append(all, condition{language, func(of string) bool {
			return query.Begin(query.Words(q.Language),
				of[len(language):])
		}})
	}
	return all
}

// found returns the positions of the records that match q, which has a condition.
func (s *Snapshot) found(q query.Search) *roaring.Bitmap {
	s.terms.mu.RLock()
	defer s.terms.mu.RUnlock()
	var sets []*roaring.Bitmap
	for _, c := range conditions(q) {
		sets = append(sets, s.terms.set(c))
	}
	slots := roaring.FastAnd(sets...).ToArray()
	positions := slots[:0]
	for _, slot := range slots {
		if int(slot) < len(s.bySlot) && s.bySlot[slot] > 0 {
			positions = append(positions, s.bySlot[slot]-1)
		}
	}
	return bitmapOf(positions, len(s.order))
}

// set returns the slots of the records that meet c. The caller must not change it.
func (t *terms) set(c condition) *roaring.Bitmap {
	if start, isWord := strings.CutPrefix(c.prefix, word); isWord && utf8.RuneCountInString(start) <= maxStart {
		if set := t.starts[start]; set != nil {
			return set
		}
		return roaring.New()
	}
	var slots []uint32
	from := sort.Search(len(t.sorted), func(i int) bool { return t.sorted[i].text >= c.prefix })
	for _, of := range t.sorted[from:] {
		if !strings.HasPrefix(of.text, c.prefix) {
			break
		}
		if c.match == nil || c.match(of.text) {
			slots = append(slots, of.slots...)
		}
	}
	return bitmapOf(slots, int(t.slots))
}

// bitmapOf returns the set of values, which are below n and in any order. It may sort them.
func bitmapOf(values []uint32, n int) *roaring.Bitmap {
	if len(values) < n/64 {
		slices.Sort(values)
		return roaring.BitmapOf(values...)
	}
	dense := make([]uint64, (n+63)/64)
	for _, v := range values {
		dense[v/64] |= 1 << (v % 64)
	}
	return roaring.FromDense(dense, false)
}

const (
	maxNear       = 3
	maxCandidates = 2000 // to compare with an id
)

// Near returns the ids of at most three records that the tier can see and that a caller may have
// meant by id: those with all its words in their texts, or else those with a similar id. The
// closest is first.
func (v View) Near(id string, tier api.Tier) []string {
	id = query.Words(id)
	if id == "" || len(id) > 100 {
		return nil
	}
	set, alike := v.s.found(query.Search{Q: id}), len(id)
	if set.IsEmpty() {
		alike = len(id) / 2
		words := strings.Fields(id)
		for _, w := range words[:min(5, len(words))] {
			start := []rune(w)
			set.Or(v.s.found(query.Search{Q: string(start[:min(3, len(start))])}))
		}
	}
	near := map[string]int{}
	visit := func(at uint32) bool {
		other := v.s.order[at].id
		if d := params.Distance(id, strings.ReplaceAll(other, "-", " ")); d <= alike || alike == len(id) {
			near[other] = d
		}
		return len(near) < maxCandidates
	}
	if !tier.AllRecords() {
		set = roaring.And(set, roaring.BitmapOf(v.free()...))
	}
	set.Iterate(visit)
	ids := slices.SortedFunc(maps.Keys(near), func(a,
		b string) int {
		return cmp.Or(cmp.Compare(near[a], near[b]), cmp.Compare(a, b))
	})
	return ids[:min(maxNear, len(ids))]
}
