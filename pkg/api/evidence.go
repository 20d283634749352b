package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// GivenFacts are facts as a client sent them. They remember which facts were left out: a missing fact is not an unknown one.
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

// Evidence records the evidence missing from a review. Facts are all or none, and a verified review needs a source, a known fact, and
// a source for each country with a stated eligibility. Call Normalize on the facts first.
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
			p.Add(fmt.Sprintf("facts.countryEligibility[%d].sourceUrls", i), "an %s country needs at least one source URL", c.Status)
		}
	}
}

func be(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// Evidenced reports whether a review that ends in verified carries a source and a known fact. Events recorded before both were
// required may lack them; such a review counts as needs-review.
func (e VerificationEvent) Evidenced() bool {
	return len(e.SourceURLs) > 0 && e.Facts != nil && e.Facts.Known()
}

// claimsEligibility reports whether the entry lets residents match a country or province filter.
func (c CountryEligibility) claimsEligibility() bool {
	return c.Status == Eligible || c.AllRegions != nil && *c.AllRegions
}
