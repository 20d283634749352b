package verify

import (
	"encoding/json"

	"opportunity.internal/services/history/internal/event"
)

func (a *verifier) summaries() error {
	const maxEvents = 5000 // in memory, unless one listing has more
	matched := 0
	for after := ""; ; {
		page, err := a.source.Summaries(after, maxEvents)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Slug
		matches := make([]bool, len(page))
		inParallel(len(page), func(i int) { matches[i] = page[i].matches() })
		for i, s := range page {
			if own := a.listings[s.Slug]; own != nil {
				matched++
				own.summary = true
			}
			if !matches[i] {
				a.addFinding(Summarized, ref{slug: s.Slug},
					"the summary of %s, of %d events up to sequence %d, does not match its %d events",
					s.Slug, s.Events, s.Sequence, len(s.Records))
			}
		}
	}
	if matched < len(a.listings) {
		for slug, own := range a.listings {
			if !own.summary {
				a.addFinding(Summarized, ref{slug: slug}, "the summary of the %d events of %s is missing", own.events,
					slug)
			}
		}
	}
	return nil
}

func (s *Summary) matches() bool {
	if len(s.Records) == 0 || len(s.Records) != s.Events || s.Records[s.Events-1].Sequence != s.Sequence {
		return false
	}
	state, err := event.StateOfRecords(s.Slug, s.Records)
	if err != nil {
		return false
	}
	derived, err := json.Marshal(state.Summary)
	return err == nil && s.Stored == string(derived)
}
