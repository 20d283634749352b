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

// Line is the number of requests of a key with one outcome on one day, with the key's current name.
type Line struct {
	Day, Key, Name string
	Outcome        api.CallOutcome
	Calls          int
}

// CSV writes lines as RFC 4180, with a header.
type CSV struct{ out *csv.Writer }

// NewCSV returns a CSV. It may not have written anything when it returns.
func NewCSV(w io.Writer) *CSV {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write([]string{"day", "key", "key name", "outcome", "requests"}) // buffered: Write returns its error
	return &CSV{out}
}

// Write writes lines and flushes.
func (c *CSV) Write(lines []Line) error {
	for _, l := range lines {
		if err := c.out.Write([]string{l.Day, l.Key, escapeFormula(l.Name), string(l.Outcome), strconv.Itoa(l.Calls)}); err != nil {
			return err
		}
	}
	c.out.Flush()
	return c.out.Error()
}

// escapeFormula prefixes values that a spreadsheet would evaluate as a formula. Key names are user input, and other people may open
// the file. Some spreadsheets also evaluate the full-width forms.
func escapeFormula(s string) string {
	// Spreadsheets ignore invisible characters.
	seen := strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
	first, _ := utf8.DecodeRuneInString(seen)
	if strings.ContainsRune("=+-@＝＋－＠", first) || strings.ContainsAny(s[:len(s)-len(seen)], "\t\r\n") {
		return "'" + s
	}
	return s
}
