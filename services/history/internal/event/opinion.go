package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"opportunity.internal/pkg/api"
)

// The inverse of the share of successful reviews that are drawn for a second opinion: 5 %, and 25 % if all evidence is from third parties.
const (
	drawnOf           = 20
	drawnOfThirdParty = 4
)

// DrawnForOpinion reports whether the review r is drawn for a second opinion. applicationURL is that of the listing. The service assigns the
// id of a review when it records it, so its author cannot know.
func DrawnForOpinion(r Record, applicationURL string) (bool, error) {
	if r.CheckType != api.Review || r.Outcome != api.OutcomeVerified {
		return false, nil
	}
	var sources []string
	if err := json.Unmarshal([]byte(r.SourceURLs), &sources); err != nil {
		return false, err
	}
	of := uint64(drawnOf)
	if !slices.ContainsFunc(sources, func(u string) bool { return site(u) == site(applicationURL) }) {
		of = drawnOfThirdParty
	}
	sum := sha256.Sum256([]byte(r.ID))
	return binary.BigEndian.Uint64(sum[:8])%of == 0, nil
}

// site returns the registrable domain of a URL, such as example.co.uk, or its host if it has none.
func site(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(u.Hostname()); err == nil {
		return domain
	}
	return u.Hostname()
}

// Differences returns the names of the facts in which two reviews differ, in the order of api.FactNames, and "outcome" if their outcomes do.
func Differences(a, b api.VerificationEvent) []string {
	differs := []string{}
	if a.Outcome != b.Outcome {
		differs = append(differs, "outcome")
	}
	x, y := byName(a.Facts), byName(b.Facts)
	for _, name := range api.FactNames {
		if !bytes.Equal(x[name], y[name]) {
			differs = append(differs, name)
		}
	}
	return differs
}

func byName(facts *api.Facts) (all map[string]json.RawMessage) {
	if facts == nil {
		return nil
	}
	text, _ := json.Marshal(facts) // facts always encode
	_ = json.Unmarshal(text, &all)
	return all
}

// Disagreement returns the event that is recorded for a second opinion that differs. It has no facts, so those in effect stay until a
// third review decides.
func Disagreement(opinion api.VerificationEvent, differs []string) api.VerificationEvent {
	opinion.Outcome, opinion.Facts = api.OutcomeNeedsReview, nil
	opinion.Note = "A second opinion differs in: " + strings.Join(differs, ", ") + "."
	return opinion
}
