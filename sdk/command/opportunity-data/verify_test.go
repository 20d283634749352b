package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// proofCase is a case of the suite of the SDKs, which has the forged proofs.
type proofCase struct {
	Name, Proof string
	Keys        struct{ Log, Witnesses []string }
}

func proofOf(t *testing.T, name string) proofCase {
	t.Helper()
	text, err := os.ReadFile("../../conformance/proofs/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []proofCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cases, func(c proofCase) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %q", name)
	}
	return cases[i]
}

func (c proofCase) checkpoint() string { _, text, _ := strings.Cut(c.Proof, "\n\n"); return text }

func (c proofCase) options() (args []string) {
	for _, key := range c.Keys.Log {
		args = append(args, "--key", key)
	}
	for _, key := range c.Keys.Witnesses {
		args = append(args, "--witness", key)
	}
	return args
}

func runVerify(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"verify"}, args...), &out, io.Discard)
	return out.String(), err
}

// expect fails the test unless the error has the text.
func expect(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want %q", err, text)
	}
}

func saved(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.txt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestVerifyFile(t *testing.T) {
	good := proofOf(t, "two witnesses, and a key of the log that did not sign")
	args := append([]string{saved(t, good.Proof)}, good.options()...) // options may follow the file
	out, err := runVerify(t, append(args, "--checkpoint", saved(t, good.checkpoint()))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"proved: the event is number 4 of the 7 events that api.example/opportunity-history has signed, and has not changed " +
			"since\n",
		", review of odin-works: verified\nchecked   2026-11-20T09:00:00.12Z\nnote      \"Première <visite> & " +
			"\\\"ok\\\"\\u2028\\a\\n😀\"\n",
		"source    \"https://odin.example/a?b=1&c=2\"\nrecorded  2026-11-20T09:30:00.123456Z, says the log\n",
		"seen      2026-11-20T09:31:00Z, by witness.example/w2\n",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("got\n%s\nwant %q", out, line)
		}
	}
	for checkpoint, want := range map[string]string{
		proofOf(t, "event 1 of 2").checkpoint():      "get the proof with ?size=2",
		proofOf(t, "changed signature").checkpoint(): "is not valid",
		// the same log signed it
		proofOf(t, "event 6 of 7").checkpoint(): "the log has signed two histories of 7 events",
	} {
		_, err = runVerify(t, append(args, "--checkpoint", saved(t, checkpoint))...)
		expect(t, err, want)
	}
	forged := proofOf(t, "changed event: note")
	_, err = runVerify(t, append(forged.options(), saved(t, forged.Proof))...)
	expect(t, err, "not proved: the event differs")
	unnamed := proofOf(t, "event 3 of 7")
	if out, err = runVerify(t, append(unnamed.options(), saved(t, unnamed.Proof))...); err != nil ||
		!strings.Contains(out, "seen      by no witness that you named") {
		t.Errorf("got %q, %v", out, err)
	}
	_, err = runVerify(t, "--key", "x", saved(t, strings.Repeat("x", maxDocument+1)))
	expect(t, err, "is larger than")
	t.Setenv("OPPORTUNITY_URL", "")
	for _, usage := range [][]string{{}, {"a.txt"}, {"maple-scribe"}, {"a", "b"}, {"--key"}} {
		if _, err = runVerify(t, usage...); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want a usage error", usage, err)
		}
	}
}

// A record is verified with the keys and the checkpoint that the installation shows; an event of
// another record proves nothing.
func TestVerifyRecord(t *testing.T) {
	c := proofOf(t, "event 3 of 7")
	p, checkpoint := c.Proof, c.checkpoint()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "":
			t.Errorf("%s has a key", r.URL)
		case r.URL.Path == wellKnown:
			_ = json.NewEncoder(w).Encode(map[string]any{"publicKeys": c.Keys.Log})
		case r.URL.Path == wellKnown+"/log/checkpoint":
			_, _ = io.WriteString(w, checkpoint)
		case strings.HasPrefix(r.URL.Path, "/records/") && r.URL.Path != "/records/unknown/event":
			_, _ = io.WriteString(w, p)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OPPORTUNITY_URL", server.URL+"/")
	t.Setenv("OPPORTUNITY_KEY", "")
	out, err := runVerify(t, "odin-works")
	if err != nil || !strings.Contains(out, "proved: the event is number 4 of the 7 events") ||
		!strings.Contains(out, c.Keys.Log[0]+", from "+server.URL) {
		t.Errorf("got %q, %v", out, err)
	}
	_, err = runVerify(t, "other-record")
	expect(t, err, "instead of other-record")
	_, err = runVerify(t, "unknown")
	expect(t, err, "set OPPORTUNITY_KEY to read the history")
	_, err = runVerify(t, "01a22060-2c57-7783-b5b4-a909390de451")
	expect(t, err, "nothing public at "+server.URL)
	checkpoint = proofOf(t, "event 6 of 7").checkpoint()
	_, err = runVerify(t, "odin-works")
	expect(t, err, "two histories")
	p = proofOf(t, "changed event: note").Proof
	_, err = runVerify(t, "odin-works")
	expect(t, err, "not proved")
}
