package usage

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Line is how many calls of a key ended in one way on one day, with what the key is called.
type Line struct {
	Day, Key, Name string
	Outcome        api.CallOutcome
	Calls          int
}

// CSV writes lines in the form of RFC 4180, with a header.
type CSV struct{ out *csv.Writer }

// NewCSV begins a file. Nothing may have been written when it returns.
func NewCSV(w io.Writer) *CSV {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write([]string{"day", "key", "key name", "outcome", "calls"}) // into a buffer: Write tells of its failure
	return &CSV{out}
}

// Write writes lines through to the writer.
func (c *CSV) Write(lines []Line) error {
	for _, l := range lines {
		if err := c.out.Write([]string{l.Day, l.Key, harmless(l.Name), string(l.Outcome), strconv.Itoa(l.Calls)}); err != nil {
			return err
		}
	}
	c.out.Flush()
	return c.out.Error()
}

// harmless marks as text what a spreadsheet would take for a formula: people choose the names of keys, and not only the one who
// opens the file. The wide forms are read as formulas by spreadsheets in some languages.
func harmless(s string) string {
	// Spreadsheets pass over what shows nothing.
	seen := strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
	first, _ := utf8.DecodeRuneInString(seen)
	if strings.ContainsRune("=+-@＝＋－＠", first) || strings.ContainsAny(s[:len(s)-len(seen)], "\t\r\n") {
		return "'" + s
	}
	return s
}
