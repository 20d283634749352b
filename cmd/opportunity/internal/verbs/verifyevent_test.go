package verbs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/storetest"
)

// The suite of the SDKs has the forged proofs.
func TestVerifyEvent(t *testing.T) {
	text := storetest.Must(os.ReadFile("../../../../sdk/conformance/proofs/cases.json"))(t)
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
			args = []string{"history", "verify-event", file(strings.ReplaceAll(name, " ", "-"), c.Proof)}
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
	forged, _ := args("changed event: note")
	unnamed, _ := args("event 3 of 7")
	good, checkpoint := args("two witnesses, and a key of the log that did not sign")
	large := []string{"history", "verify-event", file("x.txt", strings.Repeat("x", 1<<20+1)), "--key", "x"}
	missing := []string{"history", "verify-event", filepath.Join(dir, "missing"), "--key", "x"}
	for _, c := range []struct {
		args       []string
		checkpoint string
		out, err   string
		usage      bool
	}{
		{good, "", "proved: the event is number 4 of the 7 events that api.example/opportunity-history has signed\n" +
			"event     review of odin-works: verified\nchecked   2026-11-20T09:00:00.12Z\n" +
			"note      Première <visite> & \"ok\"\u2028\\u0007\n          😀\nsource    https://odin.example/a?b=1&c=2\n" +
			"recorded  2026-11-20T09:30:00.123456Z, says the log\nseen      2026-11-20T09:31:00Z, by witness.example/w1\n", "", false},
		{slices.Concat(good, []string{"--output", "json"}), checkpoint, `"size":7,"index":3`, "", false},
		{unnamed, "", "seen      by no witness that you named", "", false},
		{good, other, "", "get the proof with ?size=2", false}, {good, changed, "", "is not valid", false},
		{good, fork, "", "the log has signed two histories of 7 events", false},
		{forged, "", "", "not proved: the event differs", false},
		{large, "", "", "is larger than", true}, {missing, "", "", "no such file", true},
		{slices.Concat(good, []string{"--key", "x"}), "", "", "key", true},
	} {
		args := c.args
		if c.checkpoint != "" {
			args = slices.Concat(args, []string{"--checkpoint", file("checkpoint.txt", c.checkpoint)})
		}
		out, _, err := verb(t, nowhere, "", args...)
		require.Contains(t, out, c.out)
		require.Contains(t, fmt.Sprint(err), c.err)
		require.Equal(t, c.err == "", err == nil)
		require.Equal(t, c.usage, errors.As(err, new(flags.UsageError)))
	}
}
