package opportunity

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
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
	Name   string
	Event  json.RawMessage
	Proof  string
	Repeat int // the last line of the proof
	Keys   ProofKeys
	Want   struct {
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
	for i := range cases {
		c := &cases[i]
		last := c.Proof[strings.LastIndexByte(strings.TrimSuffix(c.Proof, "\n"), '\n')+1:]
		c.Proof += strings.Repeat(last, c.Repeat)
	}
	return cases
}

func proofNamed(t testing.TB, name string) proofCase {
	t.Helper()
	cases := proofCases(t)
	i := slices.IndexFunc(cases, func(c proofCase) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %q", name)
	}
	return cases[i]
}

func equalJSON(t testing.TB, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return string(x) == string(y)
}

// TestTypedEventHasTheLeafOfItsJSON checks that decoding the JSON of the API into an Event loses nothing.
func TestTypedEventHasTheLeafOfItsJSON(t *testing.T) {
	var fixtures struct {
		Record struct{ Facts json.RawMessage }
	}
	text, err := os.ReadFile("../../conformance/fixtures/fixtures.json")
	check(t, err)
	check(t, json.Unmarshal(text, &fixtures))
	for _, second := range []string{"00Z", "00.1Z", "00.12Z", "59.000001Z", "00.123456Z", "00.999999Z"} {
		for _, facts := range []string{"null", string(fixtures.Record.Facts), `{"pay":{"minimum":1e21,"maximum":0.1}}`} {
			event := map[string]any{
				"id": "0198f000-0000-7000-8000-000000000001", "slug": "odin-works", "checkedAt": "2026-11-20T09:00:" + second, "checkType": "review",
				"outcome": "needs-review", "sourceUrls": []string{}, "facts": json.RawMessage(facts), "note": "<ok> & \u2028 \ufffd",
			}
			text, err := json.Marshal(event)
			check(t, err)
			var typed Event
			check(t, json.Unmarshal(text, &typed))
			if facts[0] == '{' && typed.Facts.CountryEligibility == nil { // members that the API always has
				text, err = json.Marshal(typed)
				check(t, err)
				check(t, json.Unmarshal(text, &typed))
			}
			var p parsedProof
			ofEvent, err := p.leaf(typed)
			check(t, err)
			ofText, err := p.leaf(json.RawMessage(text))
			check(t, err)
			if string(ofEvent) != string(ofText) {
				t.Errorf("the leaf of %+v is not that of %s", typed, text)
			}
		}
	}
}

// TestChangedTypedEventIsNotProved checks that VerifyEvent proves what the caller has, not what was decoded.
func TestChangedTypedEventIsNotProved(t *testing.T) {
	var p parsedProof
	e := Event{ID: "0198f000-0000-7000-8000-000000000001", Note: "a", SourceURLs: []string{}}
	before, err := p.leaf(e)
	check(t, err)
	e.Note = "b"
	after, err := p.leaf(e)
	check(t, err)
	if string(before) == string(after) {
		t.Error("the leaf does not depend on the note")
	}
}

// TestEventTextsWithTwoMeaningsAreRejected has what only this SDK can see, because the others get decoded events.
func TestEventTextsWithTwoMeaningsAreRejected(t *testing.T) {
	good := proofNamed(t, "event 3 of 7")
	for _, text := range []string{
		`{"note":"a","note":"b"}`, `{"a":{"b":1,"b":1}}`, `{"a":1,"\u0061":2}`, "{\"a\":\"\xff\"}", `{"a":"\ud800\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud800x"}`,
		`{"a":1} {}`, `{"a":01}`, `{"a":NaN}`, ``,
	} {
		_, err := VerifyEvent(json.RawMessage(text), good.Proof, good.Keys)
		if failed := new(ProofError); !errors.As(err, &failed) || failed.Reason != ReasonMalformedEvent {
			t.Errorf("%s: got %v, want a malformed event", text, err)
		}
	}
	_, err := VerifyEvent([]byte(good.Event), good.Proof, good.Keys)
	if err == nil || !strings.Contains(err.Error(), "json.RawMessage") {
		t.Errorf("got %v, want what to pass in place of bytes", err)
	}
}

func TestCheckpointFromElsewhere(t *testing.T) {
	c := proofNamed(t, "two witnesses, and a key of the log that did not sign")
	proof, err := VerifyEvent(c.Event, c.Proof, c.Keys)
	check(t, err)
	_, checkpoint, _ := strings.Cut(c.Proof, "\n\n")
	size, root, err := VerifyCheckpoint(checkpoint, c.Keys)
	check(t, err)
	if size != proof.Size || string(root) != string(proof.Root) || proof.Witnesses[0].At != time.Date(2026, 11, 20, 9, 31, 0, 0, time.UTC) {
		t.Errorf("got %d %x, want %+v", size, root, proof)
	}
	for _, changed := range []string{"", checkpoint[1:], checkpoint + "x", strings.Replace(checkpoint, "\n7\n", "\n6\n", 1)} {
		if _, _, err := VerifyCheckpoint(changed, c.Keys); err == nil {
			t.Errorf("the changed checkpoint %q is valid", changed)
		}
	}
}

func TestMalformedProofNamesItsLine(t *testing.T) {
	c := proofNamed(t, "event 3 of 7")
	_, err := VerifyEvent(c.Event, strings.Replace(c.Proof, "\n7\n", "\n07\n", 1), c.Keys)
	if want := "not proved: malformed proof: line 9: want the size of the checkpoint, a decimal number"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzVerifyEvent checks that a proof which is accepted with other bytes proves the same.
func FuzzVerifyEvent(f *testing.F) {
	for _, c := range proofCases(f) {
		f.Add([]byte(c.Event), c.Proof)
	}
	good := proofNamed(f, "two witnesses, and a key of the log that did not sign")
	f.Fuzz(func(t *testing.T, event []byte, proof string) {
		got, err := VerifyEvent(json.RawMessage(event), proof, good.Keys)
		if err != nil {
			if failed := new(ProofError); !errors.As(err, &failed) {
				t.Errorf("got %v, want a ProofError", err)
			}
			return
		}
		if want, err := VerifyEvent(good.Event, good.Proof, good.Keys); err != nil || !equalJSON(t, got, want) {
			t.Errorf("%q is proved: %+v", event, got)
		}
	})
}

// FuzzCanonicalEvent checks that the canonical form of an event is JSON of the same event, and its own canonical form.
func FuzzCanonicalEvent(f *testing.F) {
	for _, c := range proofCases(f) {
		f.Add([]byte(c.Event))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		event, err := decodeEvent(text)
		if err != nil {
			return
		}
		once, err := extra{}.canonical(nil, event, "")
		check(t, err)
		again, err := decodeEvent(once)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, once, err)
		}
		if twice, err := (extra{}).canonical(nil, again, ""); err != nil || string(once) != string(twice) || !reflect.DeepEqual(event, again) {
			t.Errorf("%q became %q, then %q", text, once, twice)
		}
	})
}

// BenchmarkVerifyEvent verifies an event of a million.
func BenchmarkVerifyEvent(b *testing.B) {
	c := proofNamed(b, "event 349525 of 1048576")
	for b.Loop() {
		if _, err := VerifyEvent(c.Event, c.Proof, c.Keys); err != nil {
			b.Fatal(err)
		}
	}
}
