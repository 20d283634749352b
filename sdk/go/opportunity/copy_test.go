package opportunity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCellsHaveNoFormulas(t *testing.T) {
	text, err := os.ReadFile("../../conformance/fixtures/formulas.json")
	check(t, err)
	var cases []struct{ Text, Cell string }
	check(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		value, err := json.Marshal(c.Text)
		check(t, err)
		if got, want := cell(value), `"`+c.Cell+`"`; got != want {
			t.Errorf("%q: got %q, want %q", c.Text, got, want)
		}
	}
}

// TestCopiesHaveTheSameContentAsThoseOfOtherSDKs opens the copies again for each step.
func TestCopiesHaveTheSameContentAsThoseOfOtherSDKs(t *testing.T) {
	var exports struct {
		Steps []Changes
		CSV   []string
	}
	check(t, json.Unmarshal(expand(t, "../../conformance/fixtures/exports.json"), &exports))
	dir := t.TempDir()
	for _, step := range exports.Steps {
		for _, name := range []string{"copy.csv", "copy.ndjson"} {
			file, err := OpenFileCopy(filepath.Join(dir, name))
			check(t, err)
			state, err := file.State(t.Context())
			check(t, err)
			ids, err := file.IDs(t.Context())
			check(t, err)
			if stored := !state.FullWalkAt.IsZero(); stored != (len(ids) == 3) {
				t.Errorf("got state %v with %d records", state, len(ids))
			}
			step.State.FullWalkAt = time.Unix(0, 0)
			check(t, file.Apply(t.Context(), step))
		}
	}
	csv, err := os.ReadFile(filepath.Join(dir, "copy.csv"))
	check(t, err)
	if want := strings.Join(exports.CSV, "\r\n") + "\r\n"; string(csv) != want {
		t.Errorf("got\n%s\nwant\n%s", csv, want)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "copy.ndjson"))
	check(t, err)
	var got []string
	for scanner := bufio.NewScanner(bytes.NewReader(lines)); scanner.Scan(); {
		var record Opportunity
		check(t, json.Unmarshal(scanner.Bytes(), &record))
		got = append(got, record.ID, string(record.Verification.Status))
	}
	if strings.Join(got, " ") != "a stale b verified" {
		t.Errorf("got records %v", got)
	}
}
