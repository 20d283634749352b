package desk

import (
	"html/template"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
)

// What the template of the review page shows.

// radios are radio buttons with the value that is chosen now.
type radios struct {
	Name, Now string
	Options   []forms.Option
}

// choices are the radio buttons of the review page that are always the same.
var choices = map[string][]forms.Option{
	"state": {{Value: forms.StillSo, Label: "Still says so", Key: "1"},
		{Value: forms.Otherwise, Label: "Says otherwise", Key: "2"}, {Value: forms.Gone, Label: "Gone", Key: "3"},
		{Value: forms.CannotOpen, Label: "Cannot open", Key: "4"}},
	"outcome": {{Value: string(api.OutcomeVerified), Label: "Verified", Key: "v"},
		{Value: string(api.OutcomeClosed) + "." + api.ClosedPaused, Label: "Closed for now", Key: "c"},
		{Value: string(api.OutcomeClosed) + "." + api.ClosedEnded, Label: "Ended", Key: "e"},
		{Value: string(api.OutcomeNeedsReview), Label: "Needs review", Key: "r"}},
	"texts": {{Value: "same", Label: "Same"}, {Value: "different", Label: "Different"}},
}

func newRadios(name, now, kind string) radios { return radios{name, now, choices[kind]} }

// Lane reports whether the record can be published after this review.
func (p *reviewPage) Lane() bool { return p.Publish && p.Sheet.Visibility == "private" && !p.Opinion() }

// Opinion reports whether this is a second opinion.
func (p *reviewPage) Opinion() bool { return p.Form.Opinion() != "" }

// Wrong returns the problem of a field, or an empty string.
func (p *reviewPage) Wrong(field string) string { return pages.Page{Errors: p.problems}.Wrong(field) }

// GoneSources returns the sources that are gone.
func (p *reviewPage) GoneSources() []goneSource { return gone(p.Sheet.Events) }

// Link returns an address that records that the curator opens a page, and leads there.
func (p *reviewPage) Link(page string) string { return p.open(page) }

// Confirmed reports whether the machine found every quote from a source again.
func (p *reviewPage) Confirmed(source string) bool {
	return forms.Confirmed(p.Sheet)[source] && !p.Opinion()
}

// Unopened returns the latest review that could not open a source, nil if the latest one could.
func (p *reviewPage) Unopened(source string) *api.RecordedEvent {
	for i, e := range p.Sheet.Events {
		if slices.Contains(p.Sheet.Evidence.Unopened, source) && e.Evidence != nil &&
			slices.Contains(e.Evidence.Unopened, source) {
			return &p.Sheet.Events[i]
		}
	}
	return nil
}

// goneSource is a source that a review found gone.
type goneSource struct {
	URL   string
	Event api.RecordedEvent
}

// gone returns the sources that a review found gone and no later review used, the latest first.
// Events are newest first.
func gone(events []api.RecordedEvent) (all []goneSource) {
	seen := map[string]bool{}
	for _, e := range events {
		if e.Evidence != nil {
			for _, u := range e.Evidence.Gone {
				if !seen[u] {
					seen[u], all = true, append(all, goneSource{u, e})
				}
			}
		}
		for _, u := range e.SourceURLs {
			seen[u] = seen[u] || e.Outcome == api.OutcomeVerified
		}
	}
	return all
}

// pageOption is a page from which a quote can be.
type pageOption struct{ URL, Label string }

// Pages returns the sources, then the listing's own pages that a quote makes sources.
func (p *reviewPage) Pages() (all []pageOption) {
	for _, u := range p.Form.Sources() {
		all = append(all, pageOption{u, p.Form.Numbers(u) + ": " + shortURL(u)})
	}
	for _, u := range []string{p.Sheet.Record.ApplicationURL, p.Sheet.Record.Company.Website} {
		if api.ValidURL(u) && !slices.ContainsFunc(all, func(o pageOption) bool { return o.URL == u }) {
			all = append(all, pageOption{u, shortURL(u)})
		}
	}
	return all
}

// shownFact is a fact on the page.
type shownFact struct {
	forms.Field

	Page   *reviewPage
	Quotes []quote // stored ones, then suggestions; missing ones last
}

// quote is a quote that the form can use.
type quote struct {
	api.Quote

	Stored  bool
	Reading *api.QuoteReading // nil if the machine did not look for it
}

// Field returns the name of the checkbox.
func (q quote) Field() string {
	if q.Stored {
		return forms.KeptQuotes + q.Fact
	}
	return forms.UsedQuotes + q.Fact
}

// Value returns the value of the checkbox.
func (q quote) Value() string { return forms.QuoteValue(q.Quote) }

// Facts returns the facts that the review is about, with their quotes.
func (p *reviewPage) Facts() (all []shownFact) {
	for _, f := range forms.Facts {
		if p.Form.Asks(f.Name) {
			all = append(all, shownFact{f, p, p.quotes(f.Name)})
		}
	}
	return all
}

// maxSuggestions bounds the suggestions for a fact: a curator reads them all.
const maxSuggestions = 3

func (p *reviewPage) quotes(fact string) (all []quote) {
	var missing, suggested []quote
	current := p.Sheet.CurrentQuotes()
	for i, q := range p.Sheet.Evidence.Quotes {
		switch stored := (quote{current[i], true, forms.ReadingOf(p.Sheet, q)}); {
		case q.Fact != fact:
		case stored.Reading != nil && stored.Reading.Finding == api.QuoteMissing:
			missing = append(missing, stored)
		default:
			all = append(all, stored)
		}
	}
	for _, q := range p.Sheet.Suggestions {
		if q.Fact == fact && len(suggested) < maxSuggestions {
			suggested = append(suggested, quote{Quote: q})
		}
	}
	return slices.Concat(all, suggested, missing)
}

// QuoteKey returns the key of the quote with the index, empty if there are no more keys. The
// letters are keys of no value of a fact; digits set the state of a source.
func (f shownFact) QuoteKey(index int) string {
	const keys = "qbdhilstz"
	if index >= len(keys) {
		return ""
	}
	return keys[index : index+1]
}

// Folded reports whether the fact is unknown and there is nothing to look at.
func (f shownFact) Folded() bool {
	form := f.Page.Form
	return !form.Known(f.Name) && form.Values.Get("fact."+f.Name) == "" && !form.Again(f.Name) && len(f.Quotes) == 0 &&
		len(form.Pasted(f.Name)) == 0 && f.Texts() == nil
}

// HasStored reports whether any of its quotes is stored.
func (f shownFact) HasStored() bool {
	return slices.ContainsFunc(f.Quotes, func(q quote) bool { return q.Stored })
}

// Texts returns the texts to be compared by the author of a second opinion, nil if there are none.
func (f shownFact) Texts() *api.ComparedTexts {
	if i := slices.IndexFunc(f.Page.Texts, func(t api.ComparedTexts) bool { return t.Fact == f.Name }); i >= 0 {
		return &f.Page.Texts[i]
	}
	return nil
}

// Recorded returns the recorded value.
func (f shownFact) Recorded() []string { return forms.Describe(f.Page.Form.Base, f.Name) }

// Cites returns the numbers of the sources that the recorded value cites.
func (f shownFact) Cites() string { return f.Page.Form.Numbers(f.Page.Form.Base.Cites(f.Name)...) }

// Changed reports whether the latest review changed the fact.
func (f shownFact) Changed() bool {
	previous := f.Page.Sheet.PreviousFacts
	return previous != nil && slices.Contains(forms.Differences(*previous, f.Page.Form.Base), f.Name)
}

// Previous returns the value before the latest review.
func (f shownFact) Previous() []string { return forms.Describe(*f.Page.Sheet.PreviousFacts, f.Name) }

// Before returns the value that the curator was shown before another review changed it.
func (f shownFact) Before() []string {
	if f.Page.before == nil {
		return nil
	}
	return forms.Describe(*f.Page.before, f.Name)
}

// Pasted returns the pasted quotes, then two blank ones.
func (f shownFact) Pasted() []api.Quote {
	return append(f.Page.Form.Pasted(f.Name), make([]api.Quote, 2)...)
}

// Decisions returns the radio buttons of the fact.
func (f shownFact) Decisions() radios {
	r := radios{Name: "fact." + f.Name, Now: f.Page.Form.Values.Get("fact." + f.Name)}
	if f.Page.Form.Known(f.Name) {
		r.Options = append(r.Options, forms.Option{Value: forms.Keep, Label: "Keep", Key: "k"})
	}
	if f.Kind == forms.Decision {
		r.Options = append(r.Options, f.Options...)
	} else {
		r.Options = append(r.Options, forms.Option{Value: forms.Change, Label: "Change", Key: "e"})
	}
	r.Options = append(r.Options, forms.Option{Value: forms.Unknown, Label: "Cannot tell", Key: "x"})
	return r
}

func finding(r *api.QuoteReading) template.HTML {
	text := map[api.Finding]string{
		api.QuotePresent: "still says so, ",
		api.QuoteMoved:   "moved: the words are there in other surroundings, which keeping the quote stores; ",
		api.QuoteMissing: "missing: a machine did not find the words, ",
	}[r.Finding]
	if text == "" {
		text = strings.TrimSuffix("not read by a machine: "+compact(r.Note), ": ") + ", "
	}
	return template.HTML(template.HTMLEscapeString(text)) + day(r.ReadAt) //nolint:gosec // escaped
}

func shortURL(u string) string {
	return compact(strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://"))
}

// fragment returns the URL of a page, scrolled to a text (a text fragment). A page that has a
// fragment already keeps it.
func fragment(page, text string) string {
	u, err := url.Parse(page)
	if err != nil {
		return page
	}
	encoded := strings.ReplaceAll(url.PathEscape(strings.Join(strings.Fields(text), " ")), "-", "%2D")
	joined := u.EscapedFragment() + ":~:text=" + strings.ReplaceAll(strings.ReplaceAll(encoded, ",", "%2C"), "&", "%26")
	u.Fragment, u.RawFragment = "", ""
	return u.String() + "#" + joined
}
