package opportunity

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProofs runs the cases that all SDKs must pass; sdk/generate writes them with another
// implementation.
func TestProofs(t *testing.T) {
	for _, c := range proofCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			got, err := VerifyEvent(c.Proof, c.Keys)
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

func TestCheckpointFromElsewhere(t *testing.T) {
	c := proofNamed(t, "two witnesses, and a key of the log that did not sign")
	proof, err := VerifyEvent(c.Proof, c.Keys)
	check(t, err)
	_, checkpoint, _ := strings.Cut(c.Proof, "\n\n")
	size, root, err := VerifyCheckpoint(checkpoint, c.Keys)
	check(t, err)
	if size != proof.Size || string(root) != string(proof.Root) ||
		proof.Witnesses[0].At != time.Date(2026, 11, 20, 9, 31, 0, 0, time.UTC) {
		t.Errorf("got %d %x, want %+v", size, root, proof)
	}
	for _, changed := range []string{"", checkpoint[1:], checkpoint + "x",
		strings.Replace(checkpoint, "\n7\n", "\n6\n", 1)} {
		if _, _, err := VerifyCheckpoint(changed, c.Keys); err == nil {
			t.Errorf("the changed checkpoint %q is valid", changed)
		}
	}
}

func TestMalformedProofNamesItsLine(t *testing.T) {
	c := proofNamed(t, "event 3 of 7")
	_, err := VerifyEvent(strings.Replace(c.Proof, "\n7\n", "\n07\n", 1), c.Keys)
	if want := "not proved: malformed proof: line 9: want the size of the checkpoint, a decimal number"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzVerifyEvent checks that a proof which is accepted with other bytes proves the same.
func FuzzVerifyEvent(f *testing.F) {
	for _, c := range proofCases(f) {
		f.Add(c.Proof)
	}
	good := proofNamed(f, "two witnesses, and a key of the log that did not sign")
	f.Fuzz(func(t *testing.T, proof string) {
		got, err := VerifyEvent(proof, good.Keys)
		if err != nil {
			if failed := new(ProofError); !errors.As(err, &failed) {
				t.Errorf("got %v, want a ProofError", err)
			}
			return
		}
		if want, err := VerifyEvent(good.Proof, good.Keys); err != nil || !equalJSON(t, got, want) {
			t.Errorf("%q proves %+v", proof, got)
		}
	})
}

// BenchmarkVerifyEvent verifies an event of a million.
func BenchmarkVerifyEvent(b *testing.B) {
	c := proofNamed(b, "event 349525 of 1048576")
	for b.Loop() {
		if _, err := VerifyEvent(c.Proof, c.Keys); err != nil {
			b.Fatal(err)
		}
	}
}
