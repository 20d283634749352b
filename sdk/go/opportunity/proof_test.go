package opportunity

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestProofs runs the cases that all SDKs must pass; sdk/generate writes them with another implementation.
func TestProofs(t *testing.T) {
	for _, c := range proofCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			got, err := VerifyEvent(c.Event, c.Proof, c.Keys)
			failed := new(ProofError)
			if errors.As(err, &failed) || c.Want.Reason != "" {
				if failed.Reason != c.Want.Reason {
					t.Fatalf("got %v, want reason %q", err, c.Want.Reason)
				}
				return
			}
			check(t, err)
			got.Root, got.Witnesses = nil, append([]Seen(nil), got.Witnesses...)
			if want := c.Want.Proof; !equalJSON(t, got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

type proofCase struct {
	Name  string
	Event json.RawMessage
	Proof string
	Keys  ProofKeys
	Want  struct {
		Proof

		Reason string
	}
}

func proofCases(t testing.TB) (cases []proofCase) {
	t.Helper()
	text, err := os.ReadFile("../../conformance/proofs/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 50 {
		t.Fatal(err, len(cases))
	}
	return cases
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return string(x) == string(y)
}

// An Event has the JSON of the API.
func TestProofOfAnEventOfTheClient(t *testing.T) {
	text := `{"id":"0198f000-0000-7000-8000-000000000001","slug":"odin-works","checkedAt":"2026-11-20T09:00:00.12Z","checkType":"review",` +
		`"outcome":"needs-review","sourceUrls":[],"facts":null,"note":"<ok> & \u2028"}`
	var e Event
	check(t, json.Unmarshal([]byte(text), &e))
	var p parsedProof
	fromEvent, err := p.leaf(e)
	check(t, err)
	fromText, err := p.leaf(json.RawMessage(text))
	check(t, err)
	if string(fromEvent) != string(fromText) {
		t.Error("the leaves differ")
	}
}

func TestCheckpointFromElsewhere(t *testing.T) {
	c := proofCases(t)[0]
	for _, other := range proofCases(t) {
		if other.Name == "two witnesses, and a key of the log that did not sign" {
			c = other
		}
	}
	proof, err := VerifyEvent(c.Event, c.Proof, c.Keys)
	check(t, err)
	_, checkpoint, _ := strings.Cut(c.Proof, "\n\n")
	size, root, err := VerifyCheckpoint(checkpoint, c.Keys)
	check(t, err)
	if size != proof.Size || string(root) != string(proof.Root) || proof.Witnesses[0].At != time.Date(2026, 11, 20, 9, 31, 0, 0, time.UTC) {
		t.Errorf("got %d %x, want %+v", size, root, proof)
	}
	if _, _, err := VerifyCheckpoint(strings.Replace(checkpoint, "\n7\n", "\n6\n", 1), c.Keys); err == nil {
		t.Error("a changed checkpoint is valid")
	}
	if _, err := VerifyEvent(c.Event, c.Proof+strings.Repeat("— a AAAAAAAA\n", 6000), c.Keys); err == nil {
		t.Error("an oversized proof is valid")
	}
}

func FuzzVerifyEvent(f *testing.F) {
	for _, c := range proofCases(f) {
		f.Add([]byte(c.Event), c.Proof)
	}
	keys := proofCases(f)[0].Keys
	f.Fuzz(func(_ *testing.T, event []byte, proof string) {
		_, _ = VerifyEvent(json.RawMessage(event), proof, keys)
	})
}

func BenchmarkVerifyEvent(b *testing.B) {
	for _, c := range proofCases(b) {
		if c.Name == "event 999 of 1000" {
			for b.Loop() {
				if _, err := VerifyEvent(c.Event, c.Proof, c.Keys); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
