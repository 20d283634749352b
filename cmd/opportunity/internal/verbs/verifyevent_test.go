package verbs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/flags"
)

// The suite of the SDKs has the forged proofs.
func TestVerifyEvent(t *testing.T) {
	text, err := os.ReadFile("../../../../sdk/conformance/proofs/cases.json")
	require.NoError(t, err)
	var cases []struct {
		Name, Proof string
		Keys        struct{ Log, Witnesses []string }
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	args := func(name string) (args []string, checkpoint string) {
		for _, c := range cases {
			if c.Name != name {
				continue
			}
			args = []string{"history", "verify-event", file("event.tlog-proof", c.Proof)}
			for _, key := range c.Keys.Log {
				args = append(args, "--key", key)
			}
			for _, key := range c.Keys.Witnesses {
				args = append(args, "--witness", key)
			}
			_, checkpoint, _ = strings.Cut(c.Proof, "\n\n")
		}
		return args, checkpoint
	}
	_, other := args("event 1 of 2")
	_, changed := args("changed signature")
	_, fork := args("event 6 of 7") // the same log signed it
	good, checkpoint := args("two witnesses, and a key of the log that did not sign")
	out, _, err := verb(t, nowhere, "", good...)
	require.NoError(t, err)
	require.Contains(t, out,
		"proved: the event is number 4 of the 7 events that api.example/opportunity-history has signed\n")
	require.Contains(t, out,
		"event     review of odin-works: verified\nchecked   2026-11-20T09:00:00.12Z\nnote      Première <visite> & \"ok\"\u2028\\u0007\n          😀\nsource    https://odin.example/a?b=1&c=2\nrecorded  2026-11-20T09:30:00.123456Z, says the log\n")
	require.Contains(t, out, "seen      2026-11-20T09:31:00Z, by witness.example/w2\n")
	out, _, err = verb(t, nowhere, "", append(good, "--output", "json", "--checkpoint", file("same.txt", checkpoint))...)
	require.NoError(t, err)
	require.Contains(t, out, `"size":7,"index":3`)
	require.Contains(t, out, `"slug":"odin-works"`)
	_, _, err = verb(t, nowhere, "", append(good, "--checkpoint", file("other.txt", other))...)
	require.ErrorContains(t, err, "get the proof with ?size=2")
	_, _, err = verb(t, nowhere, "", append(good, "--checkpoint", file("changed.txt", changed))...)
	require.ErrorContains(t, err, "is not valid")
	_, _, err = verb(t, nowhere, "", append(good, "--checkpoint", file("fork.txt", fork))...)
	require.ErrorContains(t, err, "the log has signed two histories of 7 events")
	forged, _ := args("changed event: note")
	_, _, err = verb(t, nowhere, "", forged...)
	require.ErrorContains(t, err, "not proved: the event differs")
	unnamed, _ := args("event 3 of 7")
	out, _, err = verb(t, nowhere, "", unnamed...)
	require.NoError(t, err)
	require.Contains(t, out, "seen      by no witness that you named")
	for _, usage := range [][]string{
		{"history", "verify-event", file("x.txt", strings.Repeat("x", 1<<20+1)), "--key", "x"},
		{"history", "verify-event", filepath.Join(dir, "missing"), "--key", "x"},
		append(good, "--key", "x"),
	} {
		_, _, err = verb(t, nowhere, "", usage...)
		require.ErrorAs(t, err, new(flags.UsageError), usage)
	}
}
