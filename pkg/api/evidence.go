package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Evidence is private: a review stores it besides its event for curators, and no response to a
// consumer has any of it. The hash of the event covers it.
type Evidence struct {
	Quotes   []Quote  `json:"quotes"`   // at most MaxQuotesPerFact of a fact, also from one source
	Gone     []string `json:"gone"`     // sources that no longer exist
	Unopened []string `json:"unopened"` // sources that the curator could not open
	// texts of the sources at the time of the review; set by the history service
	Captures []Capture `json:"captures,omitempty"`
	Undoes   string    `json:"undoes,omitempty"` // id of the review that this one undoes; set by the history service
	Closed   string    `json:"closed,omitempty"` // why the outcome is closed: ClosedPaused, ClosedEnded or empty
	// a source that the curator opened from the sheet: set if the unchanged review was chosen for this
	// check
	Opened string `json:"opened,omitempty"`
	Cause  *Cause `json:"cause,omitempty"` // of a link check that needs review; set by the link checker
}

// Cause is the reason why a link check needs review.
type Cause struct {
	// Text is the sentence of the page, or a sentence about where the link leads. A review after a
	// link check answers its text: later link checks with the same one are no conflict.
	Text string `json:"text"`
	// Status is the status that the page claims, ApplicationClosed or ApplicationWaitlist, or
	// empty. A record with this status already is in no conflict.
	Status ApplicationStatus `json:"status,omitempty"`
}

// Values of Evidence.Closed.
const (
	ClosedPaused = "paused" // may reopen: the record is due again when the review is FreshnessWindow old
	ClosedEnded  = "ended"  // proposes to withdraw the record
)

// Complete replaces null arrays by empty ones.
func (e *Evidence) Complete() {
	e.Quotes, e.Gone, e.Unopened = present(e.Quotes), present(e.Gone), present(e.Unopened)
}

// Empty reports whether there is no evidence.
func (e Evidence) Empty() bool {
	return len(e.Quotes)+len(e.Gone)+len(e.Unopened)+len(e.Captures) == 0 && e.Undoes+e.Closed+e.Opened == "" &&
		e.Cause == nil
}

// Quote is the text of a page that supports a fact, in the form of a TextQuoteSelector (W3C Web
// Annotation Data Model, section 4.2.4).
type Quote struct {
	Fact      string `json:"fact"` // one of FactNames
	SourceURL string `json:"sourceUrl"`
	Exact     string `json:"exact"`  // at most MaxQuote characters
	Prefix    string `json:"prefix"` // text before Exact, at most MaxQuoteContext characters; may be empty
	Suffix    string `json:"suffix"` // text after Exact, likewise
}

// Limits of evidence.
const (
	MaxQuote         = 500
	MaxQuoteContext  = 60
	MaxQuotesPerFact = 10
)

// Capture is the text of a source as a machine read it at ReadAt. The history service stores the
// text by its hash.
type Capture struct {
	SourceURL string    `json:"sourceUrl"`
	ReadAt    time.Time `json:"readAt"`
	SHA256    string    `json:"sha256"` // lower-case hexadecimal, of the text in UTF-8
}

// Finding is the result of looking for a quote on its page.
type Finding string

const (
	QuotePresent Finding = "present" // with its prefix and suffix
	QuoteMoved   Finding = "moved"   // the text, in other surroundings
	QuoteMissing Finding = "missing"
	QuoteUnknown Finding = "unknown" // the page could not be read
)

// QuoteReading is a Finding of the machine that reads the pages again. It verifies and refreshes
// nothing.
type QuoteReading struct {
	Quote

	Finding Finding   `json:"finding"`
	ReadAt  time.Time `json:"readAt"`
	Note    string    `json:"note"` // why the page could not be read; may be empty

	Moved *Quote `json:"moved,omitempty"` // the quote in its new surroundings, if the finding is QuoteMoved
}

// QuoteSearch asks for findings on the stored texts of pages. The response is QuoteFindings.
type QuoteSearch struct {
	Quotes []Quote `json:"quotes"` // at most MaxQuoteSearch
}

// MaxQuoteSearch is the maximum number of quotes in a QuoteSearch: those of one review.
const MaxQuoteSearch = 200

// QuoteFindings has a reading for each quote of a QuoteSearch, in its order. The finding is
// QuoteUnknown if no text of the page is stored.
type QuoteFindings struct {
	Readings []QuoteReading `json:"readings"`
}

// ListingFindings lists the listings by the findings for the quotes of their latest review, for the
// order of the queue.
type ListingFindings struct {
	Missing []string `json:"missing"` // at least one quote is missing
	Present []string `json:"present"` // every quote is present, and every known fact has one
}

// PageTexts has the pages of a record as the machine read them.
type PageTexts struct {
	Pages []PageText `json:"pages"`
}

// PagesDue is the response to a request to read the pages of a record now.
type PagesDue struct {
	Pages int    `json:"pages"` // that are due; 0 if all were read in the last minutes
	Note  string `json:"note"`  // when they are read, or how to switch link checks on
}

// PageText is a page of a record: its latest text, and the text at the time of the latest verified
// review.
type PageText struct {
	URL    string    `json:"url"`
	ReadAt time.Time `json:"readAt,omitzero"` // last attempt to read it; absent before the first
	// why the last attempt read no text; Text is then of an earlier one
	Note         string    `json:"note"`
	Text         string    `json:"text"`                // empty if none is stored
	ReviewedText string    `json:"reviewedText"`        // empty if none is stored
	ReviewedAt   time.Time `json:"reviewedAt,omitzero"` // when ReviewedText was read, shortly before that review
}

// GivenFacts are facts as a client sent them. They remember which facts were left out: a missing
// fact is not an unknown one.
type GivenFacts struct {
	Facts

	Missing []string `json:"-"` // names of the facts that were left out
}

// UnmarshalJSON decodes the facts and records which are missing.
func (g *GivenFacts) UnmarshalJSON(text []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	g.Missing = nil
	for _, name := range FactNames {
		if _, ok := given[name]; !ok {
			g.Missing = append(g.Missing, name)
		}
	}
	return json.Unmarshal(text, &g.Facts)
}

// MarshalJSON encodes the facts without the missing ones.
func (g GivenFacts) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(g.Facts)
	if err != nil || len(g.Missing) == 0 {
		return text, err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	for _, name := range g.Missing {
		delete(given, name)
	}
	return json.Marshal(given)
}

// Same reports whether g has all facts, and each has its value in other.
func (g GivenFacts) Same(other Facts) bool {
	facts := g.Facts
	facts.Complete()
	other.Complete()
	a, _ := json.Marshal(facts) // facts always encode
	b, _ := json.Marshal(other)
	return len(g.Missing) == 0 && bytes.Equal(a, b)
}

// Evidence records the evidence missing from a review. Facts are all or none, and a verified review
// needs a source, a known fact, and a source for each country with a stated eligibility. Call
// Normalize on the facts first.
func (p *Problems) Evidence(outcome Outcome, sourceURLs []string, facts *GivenFacts) {
	if facts != nil && len(facts.Missing) > 0 {
		p.Add("facts", "%s missing; send all %d facts, unknown ones as null, \"unknown\" or []",
			strings.Join(facts.Missing, ", ")+be(len(facts.Missing)), len(FactNames))
	}
	if outcome != OutcomeVerified {
		return
	}
	if len(sourceURLs) == 0 {
		p.Add("sourceUrls", "a verified review needs at least one source URL")
	}
	switch {
	case facts == nil:
		p.Add("facts", "a verified review needs all %d facts: %s", len(FactNames), strings.Join(FactNames, ", "))
		return
	case !facts.Known():
		p.Add("facts", "a verified review needs at least one known fact")
	}
	for i, c := range facts.CountryEligibility {
		if c.Status == Ineligible && len(c.SourceURLs) == 0 && !c.claimsEligibility() { // Normalize has judged the rest
			p.Add(fmt.Sprintf("facts.countryEligibility[%d].sourceUrls", i),
				"an %s country needs at least one source URL", c.Status)
		}
	}
}

// Quotes records the problems of the quotes of a review. Each supports a known fact of the event,
// from one of its sources.
func (p *Problems) Quotes(field string, quotes []Quote, e VerificationEvent) {
	count := map[string]int{}
	for i, q := range quotes {
		count[q.Fact]++
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !slices.Contains(FactNames, q.Fact):
			p.Add(at+".fact", "must be one of %s; %q is none", strings.Join(FactNames, ", "), short(q.Fact))
		case e.Facts == nil || !e.Facts.Knows(q.Fact):
			p.Add(at+".fact", "%s has no known value in the facts of this review", q.Fact)
		}
		if !slices.Contains(e.SourceURLs, q.SourceURL) {
			p.Add(at+".sourceUrl", "%q must be one of sourceUrls", short(q.SourceURL))
		}
		if strings.TrimSpace(q.Exact) == "" {
			p.Add(at+".exact", "must not be empty")
		}
		p.Excerpt(at+".exact", q.Exact, MaxQuote)
		p.Excerpt(at+".prefix", q.Prefix, MaxQuoteContext)
		p.Excerpt(at+".suffix", q.Suffix, MaxQuoteContext)
	}
	for _, name := range FactNames {
		if count[name] > MaxQuotesPerFact {
			p.Add(field, "has %d quotes of %s; a fact has at most %d", count[name], name, MaxQuotesPerFact)
		}
	}
}

// Unquoted returns the names of the known facts without a quote, in the order of FactNames.
func Unquoted(facts Facts, quotes []Quote) (names []string) {
	for _, name := range FactNames {
		if facts.Knows(name) && !slices.ContainsFunc(quotes, func(q Quote) bool { return q.Fact == name }) {
			names = append(names, name)
		}
	}
	return names
}

func be(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// Evidenced reports whether a review that ends in verified carries a source and a known fact.
// Events recorded before both were required may lack them; such a review counts as needs-review.
func (e VerificationEvent) Evidenced() bool {
	return len(e.SourceURLs) > 0 && e.Facts != nil && e.Facts.Known()
}

// claimsEligibility reports whether the entry lets residents match a country or province filter.
func (c CountryEligibility) claimsEligibility() bool {
	return c.Status == Eligible || c.AllRegions != nil && *c.AllRegions
}
