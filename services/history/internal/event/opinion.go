package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"opportunity.internal/pkg/api"
)

// The inverse of the share of successful reviews that are drawn for a second opinion: 5 %, and 25 %
// if all evidence is from third parties.
const (
	drawnOf           = 20
	drawnOfThirdParty = 4
)

// DrawnForOpinion reports whether the review r is drawn for a second opinion. applicationURL is
// that of the listing. The service assigns the id of a review when it records it, so its author
// cannot know.
func DrawnForOpinion(r Record, applicationURL string) (bool, error) {
	if r.CheckType != api.FactualReview || r.Outcome != api.OutcomeVerified {
		return false, nil
	}
	var sources []string
	if err := json.Unmarshal([]byte(r.SourceURLs), &sources); err != nil {
		return false, err
	}
	of := uint64(drawnOf)
	if !slices.ContainsFunc(sources, func(u string) bool { return siteOf(u) == siteOf(applicationURL) }) {
		of = drawnOfThirdParty
	}
	sum := sha256.Sum256([]byte(r.ID))
	return binary.BigEndian.Uint64(sum[:8])%of == 0, nil
}

// siteOf returns the site of a URL, such as example.co.uk for jobs.example.co.uk.
func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return Site(u.Hostname())
}

// Site returns the registrable domain of a host. An IP address is a site of its own.
func Site(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil { // a public suffix, or a name without a dot
		return host
	}
	return domain
}

// OpinionFacts returns the facts that a second opinion on the review r is about, in the order of
// api.FactNames: two known ones and another one, chosen by the id of r. So the choice does not show
// which facts r knows.
func OpinionFacts(r Record) ([]string, error) {
	e, err := r.Event()
	if err != nil || e.Facts == nil {
		return nil, err
	}
	rank := func(name string) string {
		sum := sha256.Sum256([]byte(r.ID + "\x00" + name))
		return string(sum[:])
	}
	names := slices.SortedFunc(slices.Values(api.FactNames), func(a, b string) int {
		return strings.Compare(rank(a), rank(b))
	})
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !e.Facts.Knows(name) })
	chosen := known[:min(len(known), 2)]
	if i := slices.IndexFunc(names, func(name string) bool { return !slices.Contains(chosen, name) }); i >= 0 {
		chosen = append(slices.Clone(chosen), names[i])
	}
	return slices.DeleteFunc(slices.Clone(api.FactNames), func(name string) bool {
		return !slices.Contains(chosen, name)
	}), nil
}

// Differences returns the names of the facts in which a second opinion differs in meaning from the
// first review, of those with the given names and in their order, after "outcome" if the outcomes
// differ. Facts are compared if both reviews have them, without their sources and their order.
// Whether other words mean the same is the decision of the second author: same has it by fact, and
// texts has the facts that lack it.
func Differences(first, second api.VerificationEvent, names []string, same map[string]bool) (differs []string,
	texts []api.ComparedTexts) {
	differs = []string{}
	if first.Outcome != second.Outcome {
		differs = append(differs, "outcome")
	}
	if first.Facts == nil || second.Facts == nil {
		return differs, nil
	}
	for _, name := range names {
		a, b := meaningOf(*first.Facts, name), meaningOf(*second.Facts, name)
		equal, decided := same[name]
		switch {
		case a.value != b.value:
			differs = append(differs, name)
		case slices.Equal(folded(a.texts), folded(b.texts)):
		case !decided:
			texts = append(texts, api.ComparedTexts{Fact: name, First: a.texts, Second: b.texts})
		case !equal:
			differs = append(differs, name)
		}
	}
	return differs, texts
}

// meaning is a fact without its sources: the part that a program can compare, as JSON, and the
// texts.
type meaning struct {
	value string
	texts []string
}

func meaningOf(f api.Facts, name string) meaning {
	texts := []string{}
	var value any
	switch name {
	case "countryEligibility":
		countries := []api.CountryEligibility{}
		for _, c := range f.CountryEligibility {
			if c.Note != "" {
				texts = append(texts, c.Country+": "+c.Note)
			}
			if c.Status == api.EligibilityUnknown && c.AllRegions == nil &&
				len(c.IncludedRegions)+len(c.ExcludedRegions) == 0 {
				continue // says nothing
			}
			c.Note, c.SourceURLs, c.IncludedRegions, c.ExcludedRegions = "", nil, ordered(c.IncludedRegions),
				ordered(c.ExcludedRegions)
			countries = append(countries, c)
		}
		slices.SortFunc(countries, func(a, b api.CountryEligibility) int {
			return strings.Compare(a.Country,
				b.Country)
		})
		value = countries
	case "pay":
		if f.Pay != nil {
			value = []any{f.Pay.Minimum, f.Pay.Maximum, f.Pay.Currency, f.Pay.Unit}
		}
	case "languages":
		texts, value = f.Languages, len(f.Languages) > 0
	case "requirements":
		texts, value = f.Requirements, len(f.Requirements) > 0
	case "riskIndicators":
		value = len(f.RiskIndicators) > 0
		for _, r := range f.RiskIndicators {
			texts = append(texts, strings.TrimSuffix(r.Code+": "+r.Note, ": "))
		}
	case "applicationUrl":
		if value = f.ApplicationURL != nil; f.ApplicationURL != nil {
			texts = append(texts, *f.ApplicationURL)
		}
	default:
		value = byName(f)[name]
	}
	text, _ := json.Marshal(value) // facts always encode
	return meaning{string(text), texts}
}

func ordered(values []string) []string { return slices.Sorted(slices.Values(values)) }

func folded(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	}
	return ordered(all)
}

func byName(facts api.Facts) (all map[string]json.RawMessage) {
	text, _ := json.Marshal(facts) // facts always encode
	_ = json.Unmarshal(text, &all)
	return all
}

// Disagreement returns the event that is recorded for a second opinion that differs. It has no
// facts, so those in effect stay until a third review decides.
func Disagreement(opinion api.VerificationEvent, differs []string) api.VerificationEvent {
	opinion.Outcome, opinion.Facts = api.OutcomeNeedsReview, nil
	opinion.Note = "A second opinion differs in: " + strings.Join(differs, ", ") + "."
	return opinion
}
