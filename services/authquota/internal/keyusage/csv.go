package keyusage

import (
	"encoding/csv"
	"io"
	"strconv"

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

// Write writes lines and flushes. Key names are user input, and other people may open the file.
func (c *CSV) Write(lines []Line) error {
	for _, l := range lines {
		if err := c.out.Write([]string{l.Day, l.Key, api.EscapeFormulas(l.Name), string(l.Outcome), strconv.Itoa(l.Calls)}); err != nil {
			return err
		}
	}
	c.out.Flush()
	return c.out.Error()
}
