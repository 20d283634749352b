package desk

import (
	"strings"
	"time"

	"github.com/sergi/go-diff/diffmatchpatch"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

// pagesPage shows what changed on the pages of a record since its latest verified review.
type pagesPage struct {
	ID, Company string
	Pages       []pageText
}

// pageText is a page as the machine read it last.
type pageText struct {
	api.PageText

	Lines []textLine // that differ from the reviewed text, with those around them; empty if there is nothing to compare
}

// Compared reports whether both texts are stored.
func (p pageText) Compared() bool { return p.Text != "" && p.ReviewedText != "" }

// textLine is a line of a page, or a gap between lines. A gap has no parts.
type textLine struct {
	Removed, Added bool
	Parts          []textPart
}

// textPart is a part of a line: a stored quote, or the text between quotes.
type textPart struct {
	Text  string
	Quote bool
}

func (d *Desk) pageTexts(v *visit) (view, error) {
	id := v.PathValue("id")
	sheet, err := sheet(v, id, "")
	if err != nil {
		return view{}, err
	}
	stored, err := call(v, adminapi.GetPages, adminapi.Input{ID: id})
	if err != nil {
		return view{}, err
	}
	page := pagesPage{ID: id, Company: sheet.Record.Company.Name}
	for _, p := range stored.Pages {
		shown := pageText{PageText: p}
		if shown.Compared() && p.Text != p.ReviewedText {
			shown.Lines = changedLines(p.ReviewedText, p.Text, quotesOf(p.URL, sheet.Evidence.Quotes))
		}
		page.Pages = append(page.Pages, shown)
	}
	return view{Template: "pages", Title: "Pages of " + page.Company, Data: page}, nil
}

// readPages asks the link checker to read the pages of a record now.
func (d *Desk) readPages(v *visit) (view, error) {
	id := v.PathValue("id")
	due, err := call(v, adminapi.ReadPages, adminapi.Input{ID: id})
	return view{Redirect: recordPath(id) + "/pages", Notice: forms.PagesDue(due)}, err
}

func quotesOf(page string, all []api.Quote) (quotes []string) {
	for _, q := range all {
		if q.SourceURL == page {
			quotes = append(quotes, q.Exact)
		}
	}
	return quotes
}

// Limits of a comparison, so that a large page neither takes long nor fills the screen.
const (
	compareTime = time.Second // after that, the comparison is coarser
	maxLines    = 200
)

// changedLines returns the lines that differ between two texts, with the line before them and a gap
// for the others.
func changedLines(before, after string, quotes []string) (lines []textLine) {
	compare := diffmatchpatch.New()
	compare.DiffTimeout = compareTime
	a, b, words := compare.DiffLinesToChars(before+"\n", after+"\n")
	for _, part := range compare.DiffCharsToLines(compare.DiffMain(a, b, false), words) {
		text := strings.Split(strings.TrimSuffix(part.Text, "\n"), "\n")
		if part.Type == diffmatchpatch.DiffEqual {
			if len(text) > 1 {
				lines = append(lines, textLine{})
			}
			text = text[len(text)-1:]
		}
		for _, line := range text {
			if len(lines) >= maxLines {
				return append(lines, textLine{})
			}
			lines = append(lines, textLine{Removed: part.Type == diffmatchpatch.DiffDelete,
				Added: part.Type == diffmatchpatch.DiffInsert, Parts: marked(line, quotes)})
		}
	}
	return lines
}

func marked(line string, quotes []string) (parts []textPart) {
	for line != "" {
		at, quote := len(line), ""
		for _, q := range quotes {
			if i := strings.Index(line, q); i >= 0 && i < at && q != "" {
				at, quote = i, q
			}
		}
		if at > 0 {
			parts = append(parts, textPart{Text: line[:at]})
		}
		if quote != "" {
			parts = append(parts, textPart{Text: quote, Quote: true})
		}
		line = line[at+len(quote):]
	}
	return parts
}
