package audit

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"opportunity.internal/pkg/api"
)

// resolve tells what was done from all that does not fit.
func (a *auditor) resolve() {
	if a.orphaned {
		a.find(Checkpointed, ref{}, 0, "hashes were kept of events that no checkpoint covers: newer checkpoints are gone")
	}
	replaced := map[int64]ref{} // by the sequence at which another event was signed
	for _, at := range a.pendingSeen {
		replaced[at.sequence] = at
	}
	lost := map[int64]bool{} // sequences of signed events that are nowhere, though no sequence is missing
	for _, at := range a.pendingKept {
		if _, ok := replaced[at]; !ok && a.gapAt(at) == nil {
			lost[at] = true
		}
	}
	kept := map[int64]bool{}
	for _, at := range a.pendingKept {
		kept[at] = true
	}
	shifted := len(lost) > 0
	a.resolveLinks(replaced, lost)
	for sequence, at := range replaced {
		if c := a.claimOf(sequence); kept[sequence] {
			a.find(Replaced, at, c.Number, "the hashes of event %s agree, but %s signed another event in its place", at.id, c.what())
		} else {
			a.find(Inserted, at, c.Number, "event %s is not among the events that %s signed", at.id, c.what())
		}
	}
	a.resolveStrays(lost)
	for _, sequence := range slices.Sorted(maps.Keys(lost)) {
		c := a.claimOf(sequence)
		a.find(RemovedTail, ref{sequence: sequence}, c.Number, "the event that %s signed as number %d is gone, and the numbers were closed", c.what(), sequence)
	}
	for _, g := range a.gaps {
		// Where numbers were closed the last are missing, though their events are there.
		if !g.used && (!shifted || g.to > a.signed || firstIn(kept, g.from, g.to) != 0) {
			a.find(RemovedTail, ref{sequence: g.from}, 0, "the events %d to %d are gone", g.from, g.to)
		}
	}
	if a.moved.sequence != 0 && !a.foundUpTo(1, a.moved.sequence) {
		c := a.claimOf(a.moved.sequence)
		a.find(Reordered, a.moved, c.Number, "event %s stands in another place than %s signed", a.moved.id, c.what())
	}
	for _, c := range a.mismatched {
		if !a.foundUpTo(c.after+1, c.Size) {
			a.find(Replaced, ref{sequence: c.after + 1}, c.Number, "among the events %d to %d are others than %s signed", c.after+1, c.Size, c.what())
		}
	}
	for _, c := range a.claims { // larger than all there is; miss has gone that far, so there are none
		a.find(RemovedTail, ref{sequence: a.next}, c.Number, "%s signed %d events", c.what(), c.Size)
	}
	for _, s := range a.untold {
		if !a.named(s.Slug) {
			a.find(Summarized, ref{slug: s.Slug}, 0, "the summary of %s is not what its %d events come to", s.Slug, s.DueEvents)
		}
	}
}

// resolveLinks says of each break in a chain how it came about.
func (a *auditor) resolveLinks(replaced map[int64]ref, lost map[int64]bool) {
	for _, l := range a.links {
		if l.resolved != 0 {
			a.find(Reordered, l.at, 0, "event %s stands before the event that it follows, which is number %d", l.at.id, l.resolved)
			continue
		}
		if _, known := replaced[l.before.sequence]; known {
			continue // it is the event before that was replaced, and that is said
		}
		gone := func(sequence int64) {
			a.find(RemovedMiddle, ref{sequence: sequence, slug: l.at.slug}, 0,
				"an event is gone: event %s, number %d, was chained to it", l.at.id, l.at.sequence)
		}
		if sequence := a.gapBetween(l.before.sequence, l.at.sequence); sequence != 0 {
			gone(sequence)
			continue
		}
		if sequence := firstIn(lost, l.before.sequence+1, l.at.sequence); sequence != 0 {
			delete(lost, sequence)
			gone(sequence)
			continue
		}
		if l.before.sequence == 0 {
			a.find(RemovedMiddle, l.at, 0, "the event that event %s was chained to is gone, and the numbers were closed", l.at.id)
			continue
		}
		a.find(Replaced, l.before, 0, "event %s, number %d, was chained to another event than %s, or one between them is gone and the numbers were closed",
			l.at.id, l.at.sequence, l.before.id)
	}
}

// resolveStrays names the listings whose chains do not reach, or do not agree with, a signed head or their summary.
func (a *auditor) resolveStrays(lost map[int64]bool) {
	shorter := func(slug string, number int64, want, have int64) {
		at := ref{slug: slug}
		last := int64(0)
		if own := a.chains[slug]; own != nil {
			last = own.last.sequence
		}
		if at.sequence = firstIn(lost, last+1, a.next); at.sequence != 0 {
			delete(lost, at.sequence)
		} else {
			at.sequence = a.gapBetween(last, a.next)
		}
		if have == 0 {
			a.find(RemovedTail, at, number, "all %d events of %s are gone", want, slug)
			return
		}
		a.find(RemovedTail, at, number, "the last events of %s are gone: there were %d, there are %d", slug, want, have)
	}
	for _, s := range a.strayed {
		switch {
		case a.named(s.head.Slug):
		case s.events < s.head.Events:
			shorter(s.head.Slug, s.claim.Number, s.head.Events, s.events)
		default:
			at := s.since
			at.slug = s.head.Slug
			a.find(Replaced, at, s.claim.Number, "the events of %s, from this one at the earliest, are not those that %s signed", at.slug, s.claim.what())
		}
	}
	for _, s := range a.untold {
		if s.DueEvents < s.Events && !a.named(s.Slug) && a.gapAt(s.Sequence) != nil {
			shorter(s.Slug, 0, int64(s.Events), int64(s.DueEvents))
		}
	}
}

// gapFrom is the first gap that ends at a sequence or behind it, nil where there is none. Gaps are in order and apart; in a history
// of which much is gone there may be as many as events.
func (a *auditor) gapFrom(sequence int64) *gap {
	i, _ := slices.BinarySearchFunc(a.gaps, sequence, func(g gap, at int64) int { return cmp.Compare(g.to, at) })
	if i == len(a.gaps) {
		return nil
	}
	return &a.gaps[i]
}

// gapAt is the gap that a sequence lies in, nil where there is none.
func (a *auditor) gapAt(sequence int64) *gap {
	if g := a.gapFrom(sequence); g != nil && g.from <= sequence {
		return g
	}
	return nil
}

// gapBetween is the first missing sequence between two, 0 where none is missing. What is missing there counts as told.
func (a *auditor) gapBetween(after, before int64) int64 {
	g := a.gapFrom(after + 1)
	if g == nil || g.from >= before {
		return 0
	}
	g.used = true
	return max(g.from, after+1)
}

// firstIn is the least of the set within bounds, 0 where there is none.
func firstIn(set map[int64]bool, from, to int64) int64 {
	first := int64(0)
	for n := range set {
		if n >= from && n <= to && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// claimOf is the first stored claim that covers a sequence.
func (a *auditor) claimOf(sequence int64) claim {
	for _, c := range a.covering {
		if c.Size >= sequence {
			return c
		}
	}
	return claim{}
}

func (a *auditor) foundUpTo(from, to int64) bool {
	return slices.ContainsFunc(a.findings, func(f Finding) bool { return f.Sequence >= from && f.Sequence <= to })
}

func (a *auditor) named(slug string) bool {
	return slices.ContainsFunc(a.findings, func(f Finding) bool { return f.Slug == slug })
}

// summaries compares what is kept of each listing with what its events come to.
func (a *auditor) summaries() error {
	const atOnce = 50 // listings whose whole histories are in memory
	told := 0
	for after := ""; ; {
		page, err := a.source.Summaries(after, atOnce)
		if err != nil {
			return err
		}
		for _, s := range page {
			if a.chains[s.Slug] != nil {
				told++
				a.chains[s.Slug].summed = true
			}
			if s.Sequence != s.DueSequence || s.Events != s.DueEvents || !alike(s.Kept, s.Due) {
				a.untold = append(a.untold, s)
			}
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Slug
	}
	if told < len(a.chains) {
		for slug, own := range a.chains {
			if !own.summed {
				a.untold = append(a.untold, Summary{Slug: slug, DueSequence: own.last.sequence, DueEvents: int(own.events)})
			}
		}
	}
	return nil
}

// alike compares summaries by what they say: one may have been written before the contract gained a field. Whoever adds a field to
// api.Summary says here what an old summary without it is like, or verify calls every listing of an older release tampered with.
func alike(kept, due string) bool {
	if kept == due {
		return true
	}
	var a, b api.Summary
	if json.Unmarshal([]byte(kept), &a) != nil || json.Unmarshal([]byte(due), &b) != nil {
		return false
	}
	if a.Doubt == nil { // what a status rests on is told by other fields
		b.Doubt = nil
	}
	for _, s := range []*api.Summary{&a, &b} {
		if s.Facts != nil {
			s.Facts.Complete()
		}
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
