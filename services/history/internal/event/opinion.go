package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"

	"opportunity.internal/pkg/api"
)

// drawnOf is the inverse of the share of reviews that are drawn for a second opinion: 5 %.
const drawnOf = 20

// DrawnForOpinion reports whether the review with the id is drawn for a second opinion. The service assigns the id when it records the
// review, so its author cannot know.
func DrawnForOpinion(id string) bool {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:8])%drawnOf == 0
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
