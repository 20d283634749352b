package audit

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/summary"
)

// resolve derives findings from the mismatches of the walk.
func (a *auditor) resolve() {
	if a.orphaned {
		a.addFinding(Checkpointed, ref{}, 0, "leaves are stored for events without a checkpoint: newer checkpoints are missing")
	}
	replaced := map[int64]ref{} // by sequence: events in the place of another signed event
	for _, at := range a.pendingSeen {
		replaced[at.sequence] = at
	}
	removed := map[int64]bool{} // sequences of missing signed events, without a gap
	for _, at := range a.pendingStored {
		if _, ok := replaced[at]; !ok && a.gapAt(at) == nil {
			removed[at] = true
		}
	}
	stored := map[int64]bool{}
	for _, at := range a.pendingStored {
		stored[at] = true
	}
	shifted := len(removed) > 0
	a.resolveLinks(replaced, removed)
	for sequence, at := range replaced {
		if c := a.claimFor(sequence); stored[sequence] {
			a.addFinding(Replaced, at, c.Number, "the hashes of event %s are consistent, but %s signed another event in its place", at.id, c.name())
		} else {
			a.addFinding(Inserted, at, c.Number, "event %s is not among the events that %s signed", at.id, c.name())
		}
	}
	a.resolveHeadMismatches(removed)
	for _, sequence := range slices.Sorted(maps.Keys(removed)) {
		c := a.claimFor(sequence)
		a.addFinding(RemovedTail, ref{sequence: sequence}, c.Number, "the event that %s signed with sequence %d is missing, and later events were renumbered", c.name(), sequence)
	}
	for _, g := range a.gaps {
		// After renumbering the last sequences are missing, although their events are not.
		if !g.used && (!shifted || g.to > a.signedSize || firstIn(stored, g.from, g.to) != 0) {
			a.addFinding(RemovedTail, ref{sequence: g.from}, 0, "events %d to %d are missing", g.from, g.to)
		}
	}
	if a.moved.sequence != 0 && !a.hasFindingIn(1, a.moved.sequence) {
		c := a.claimFor(a.moved.sequence)
		a.addFinding(Reordered, a.moved, c.Number, "event %s is not in the place in which %s signed it", a.moved.id, c.name())
	}
	for _, c := range a.mismatched {
		if !a.hasFindingIn(c.after+1, c.Size) {
			a.addFinding(Replaced, ref{sequence: c.after + 1}, c.Number, "some of the events %d to %d differ from those that %s signed", c.after+1, c.Size, c.name())
		}
	}
	for _, s := range a.badSummaries {
		if !a.hasFinding(s.slug) {
			a.addFinding(Summarized, ref{slug: s.slug}, 0, "the summary of %s does not match its %d events", s.slug, s.derived)
		}
	}
}

// resolveLinks adds a finding for the cause of each break in a chain.
func (a *auditor) resolveLinks(replaced map[int64]ref, removed map[int64]bool) {
	for _, l := range a.links {
		if l.resolved != 0 {
			a.addFinding(Reordered, l.at, 0, "event %s is before the event to which it is chained, with sequence %d", l.at.id, l.resolved)
			continue
		}
		if _, known := replaced[l.before.sequence]; known {
			continue // the cause is the replaced previous event, which has a finding
		}
		gone := func(sequence int64) {
			a.addFinding(RemovedMiddle, ref{sequence: sequence, slug: l.at.slug}, 0,
				"missing event: event %s with sequence %d was chained to it", l.at.id, l.at.sequence)
		}
		if sequence := a.gapBetween(l.before.sequence, l.at.sequence); sequence != 0 {
			gone(sequence)
			continue
		}
		if sequence := firstIn(removed, l.before.sequence+1, l.at.sequence); sequence != 0 {
			delete(removed, sequence)
			gone(sequence)
			continue
		}
		if l.before.sequence == 0 {
			a.addFinding(RemovedMiddle, l.at, 0, "the event to which event %s was chained is missing, and later events were renumbered", l.at.id)
			continue
		}
		a.addFinding(Replaced, l.before, 0, "event %s with sequence %d is not chained to event %s; that was replaced, or an event between them was removed and later ones renumbered",
			l.at.id, l.at.sequence, l.before.id)
	}
}

// resolveHeadMismatches adds a finding for each chain that is shorter than, or differs from, a signed head or its summary.
func (a *auditor) resolveHeadMismatches(removed map[int64]bool) {
	shorter := func(slug string, number int64, want, have int64) {
		at := ref{slug: slug}
		last := int64(0)
		if own := a.chains[slug]; own != nil {
			last = own.last.sequence
		}
		if at.sequence = firstIn(removed, last+1, a.next); at.sequence != 0 {
			delete(removed, at.sequence)
		} else {
			at.sequence = a.gapBetween(last, a.next)
		}
		if have == 0 {
			a.addFinding(RemovedTail, at, number, "all %d events of %s are missing", want, slug)
			return
		}
		a.addFinding(RemovedTail, at, number, "the last events of %s are missing: got %d, want %d", slug, have, want)
	}
	for _, s := range a.headMismatches {
		switch {
		case a.hasFinding(s.head.Slug):
		case s.events < s.head.Events:
			shorter(s.head.Slug, s.claim.Number, s.head.Events, s.events)
		default:
			at := s.since
			at.slug = s.head.Slug
			a.addFinding(Replaced, at, s.claim.Number, "events of %s, from this one at the earliest, differ from those that %s signed", at.slug, s.claim.name())
		}
	}
	for _, s := range a.badSummaries {
		if s.derived < s.events && !a.hasFinding(s.slug) && a.gapAt(s.sequence) != nil {
			shorter(s.slug, 0, int64(s.events), int64(s.derived))
		}
	}
}

// gapFrom returns the first gap that ends at or after sequence, or nil. It uses binary search, because a history with many removed
// events may have as many gaps as events.
func (a *auditor) gapFrom(sequence int64) *gap {
	i, _ := slices.BinarySearchFunc(a.gaps, sequence, func(g gap, at int64) int { return cmp.Compare(g.to, at) })
	if i == len(a.gaps) {
		return nil
	}
	return &a.gaps[i]
}

// gapAt returns the gap that contains sequence, or nil.
func (a *auditor) gapAt(sequence int64) *gap {
	if g := a.gapFrom(sequence); g != nil && g.from <= sequence {
		return g
	}
	return nil
}

// gapBetween returns the first missing sequence between after and before, or 0, and marks its gap as covered by a finding.
func (a *auditor) gapBetween(after, before int64) int64 {
	g := a.gapFrom(after + 1)
	if g == nil || g.from >= before {
		return 0
	}
	g.used = true
	return max(g.from, after+1)
}

// firstIn returns the smallest member of set between from and to, or 0.
func firstIn(set map[int64]bool, from, to int64) int64 {
	first := int64(0)
	for n := range set {
		if n >= from && n <= to && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}

// claimFor returns the first stored claim that covers sequence.
func (a *auditor) claimFor(sequence int64) claim {
	for _, c := range a.storedClaims {
		if c.Size >= sequence {
			return c
		}
	}
	return claim{}
}

// hasFindingIn reports whether a finding names a sequence between from and to.
func (a *auditor) hasFindingIn(from, to int64) bool {
	return slices.ContainsFunc(a.findings, func(f Finding) bool { return f.Sequence >= from && f.Sequence <= to })
}

// hasFinding reports whether a finding names the listing.
func (a *auditor) hasFinding(slug string) bool {
	return slices.ContainsFunc(a.findings, func(f Finding) bool { return f.Slug == slug })
}

// badSummary is a summary that does not match the events of its listing.
type badSummary struct {
	slug     string
	sequence int64 // of the last event, according to the summary
	events   int   // according to the summary; 0 if it is missing
	derived  int   // number of events
}

// summaries compares each stored summary with the one derived from the events.
func (a *auditor) summaries() error {
	const maxEvents = 5000 // in memory, unless one listing has more
	matched := 0
	after := ""
	read := func() (page []Summary, more bool, err error) {
		page, err = a.source.Summaries(after, maxEvents)
		if len(page) > 0 {
			after = page[len(page)-1].Slug
		}
		return page, len(page) > 0, err
	}
	for page, err := range ahead(read) {
		if err != nil {
			return err
		}
		matches := make([]bool, len(page))
		inParallel(len(page), func(i int) { matches[i] = page[i].matches() })
		for i, s := range page {
			if own := a.chains[s.Slug]; own != nil {
				matched++
				own.hasSummary = true
			}
			if !matches[i] {
				a.badSummaries = append(a.badSummaries, badSummary{s.Slug, s.Sequence, s.Events, len(s.Records)})
			}
		}
	}
	if matched < len(a.chains) {
		for slug, own := range a.chains {
			if !own.hasSummary {
				a.badSummaries = append(a.badSummaries, badSummary{slug: slug, derived: int(own.events)})
			}
		}
	}
	return nil
}

// matches reports whether the summary is the one derived from the events.
func (s *Summary) matches() bool {
	if len(s.Records) == 0 || len(s.Records) != s.Events || s.Records[s.Events-1].Sequence != s.Sequence {
		return false
	}
	if s.Outdated {
		return true
	}
	derived, err := summary.Encode(s.Slug, s.Records)
	return err == nil && equalSummaries(s.Stored, derived)
}

// equalSummaries compares summaries by content, because the stored one may predate a field of the API. If you add a field to
// api.Summary, handle stored summaries without it here. Otherwise verify reports a mismatch for every listing of an older release.
func equalSummaries(stored, derived string) bool {
	if stored == derived {
		return true
	}
	var a, b api.Summary
	if json.Unmarshal([]byte(stored), &a) != nil || json.Unmarshal([]byte(derived), &b) != nil {
		return false
	}
	if a.Doubt == nil { // other fields determine the status
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
