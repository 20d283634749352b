package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/journal"
)

func line(sequence int64) journal.Line {
	return journal.Line{
		Sequence: sequence, ID: strings.Repeat("a", int(sequence)), At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		Acts: []journal.Act{{Actor: "ada", Action: "key.revoke", Subject: "key_1"}}, Sealed: "v1.sealed",
	}
}

func read(t *testing.T, text string) (lines []journal.Line) {
	t.Helper()
	require.NoError(t, journal.Read(strings.NewReader(text), func(l journal.Line) error { lines = append(lines, l); return nil }))
	return lines
}

func TestJournalIsReadFromALog(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, journal.NewStream(&out).Write(line(1)))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	text := out.String()
	require.True(t, strings.HasPrefix(text, `{"journal":"authquota","sequence":1,`), text)
	log := "starting\n2026-11-20T10:00:00Z stdout F " + text + `{"msg":"other"}` + "\n" + text[:40] + "\n" + strings.Replace(text, "1", "0", 1) + text
	require.Equal(t, []journal.Line{line(1), line(1)}, read(t, log))
	require.Equal(t, []journal.Line{line(1)}, read(t, strings.TrimSpace(text)), "without a line end")
}

func genuine(l journal.Line) bool { return l.Sealed == "v1.sealed" }

// A line that cannot be read again proves nothing.
func TestForgedLineIsNotTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	forged := line(9)
	forged.Sealed = "v1.forged"
	text, err := forged.Encode()
	require.NoError(t, err)
	own, err := line(2).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(own, text...), 0o600))
	file, err := journal.OpenFile(path, genuine)
	require.NoError(t, err)
	require.Equal(t, line(2), file.Last())
}

func TestFileContinuesAfterAnIncompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	file, err := journal.OpenFile(path, genuine)
	require.NoError(t, err)
	require.Zero(t, file.Last())
	require.NoError(t, file.Write(line(2)))
	require.NoError(t, file.Write(line(1)), "of another process, later")
	require.Equal(t, line(2), file.Last())
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, written[:len(written)-9], 0o600))

	file, err = journal.OpenFile(path, genuine)
	require.NoError(t, err)
	require.Equal(t, line(2), file.Last())
	require.NoError(t, file.Write(line(3)))
	written, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []journal.Line{line(2), line(3)}, read(t, string(written)))

	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, file.Write(line(4)))
	written, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []journal.Line{line(4)}, read(t, string(written)), "the file was rotated")
	_, err = journal.OpenFile(filepath.Join(t.TempDir(), "missing", "journal.jsonl"), genuine)
	require.ErrorContains(t, err, "missing/journal.jsonl")
}
