package verbs

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"opportunity.internal/pkg/api"
)

// print writes the response or calls text, depending on --output.
func (v *verbs) print(out io.Writer, raw []byte, text func(io.Writer)) {
	out = Printable(out)
	if v.output == "json" {
		fmt.Fprintf(out, "%s\n", raw)
		return
	}
	text(out)
}

// Printable returns a writer that escapes control characters as \uXXXX, so that text of others
// cannot control the terminal. It keeps newlines and tabs. JSON stays the same value, because these
// characters appear only in its strings.
func Printable(out io.Writer) io.Writer { return printable{out} }

type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.Writer, escape(string(text), "\n\t"))
	return len(text), err
}

// escape replaces control characters, and those that change the direction of writing, by \uXXXX. It
// leaves those in keep.
func escape(text, keep string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune(keep, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printNextPage prints how to get the next page, if there is one.
func printNextPage(out io.Writer, flag, next string) {
	if next != "" {
		fmt.Fprintf(out, "There are more: continue with --%s %s\n", flag, next)
	}
}

// table prints rows in aligned columns. A cell stays on its line.
func table(out io.Writer, head string, rows func(row func(cells ...any))) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, escape(fmt.Sprint(c), ""))
		}
		fmt.Fprintln(w)
	})
	_ = w.Flush()
}

// WriteCSV writes rows for spreadsheets. It escapes formulas, because others wrote the text.
func WriteCSV(out io.Writer, head []string, rows func(row func(cells ...string))) error {
	w := csv.NewWriter(out)
	_ = w.Write(head) // Error returns the first error
	rows(func(cells ...string) {
		for i, cell := range cells {
			cells[i] = api.EscapeFormulas(cell)
		}
		_ = w.Write(cells)
	})
	w.Flush()
	return w.Error()
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func rfc3339(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return formatTime(*t)
}
