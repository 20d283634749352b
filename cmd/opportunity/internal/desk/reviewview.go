package desk

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
)

// What the template of the review page shows.

// choice is a radio button.
type choice struct {
	Name, Value, Label string
	Key                string // shortcut; empty if there is none
	Describe           string // id of the element that describes it
	Checked            bool
}

// source is a source of the form.
type source struct {
	Index, Number int
	URL, Link     string // Link opens URL
	Marks         []choice
	Confirmed     bool               // the machine found every quote again
	Unopened      *api.RecordedEvent // the review that could not open it; nil if the latest one could
}

// quote is a quote that the form can use.
type quote struct {
	api.Quote

	Field, Value string // of its checkbox
	Checked      bool
	Key          string
	Number       string            // of its source
	Reading      *api.QuoteReading // nil if the machine did not look for it
	Link         string            // opens the page at the quote
}

var marks = []choice{
	{Value: string(reviewform.StillSo), Label: "Still says so", Key: "1"},
	{Value: string(reviewform.Otherwise), Label: "Says otherwise", Key: "2"},
	{Value: string(reviewform.Gone), Label: "Gone", Key: "3"},
	{Value: string(reviewform.CannotOpen), Label: "Cannot open", Key: "4"},
}

// choices returns radio buttons of a field with its current value.
func choices(all []choice, name, now string) []choice {
	all = slices.Clone(all)
	for i := range all {
		all[i].Name, all[i].Checked = name, all[i].Value == now
	}
	return all
}

// Sources returns the sources with their marks.
func (p *reviewPage) Sources() (all []source) {
	confirmed := reviewform.Confirmed(p.Sheet)
	for i, u := range p.Form.Sources {
		s := source{Index: i, Number: i + 1, URL: u, Link: p.open(u), Confirmed: confirmed[u] && !p.Opinion()}
		s.Marks = choices(marks, fmt.Sprintf("mark.%d", i), string(p.Form.Mark(u)))
		if slices.Contains(p.Sheet.Evidence.Unopened, u) {
			s.Unopened = latest(p.Sheet.Events, func(e *api.Evidence) []string { return e.Unopened }, u)
		}
		all = append(all, s)
	}
	return all
}

// latest returns the latest event whose evidence has the source, nil if there is none.
func latest(events []api.RecordedEvent, urls func(*api.Evidence) []string, source string) *api.RecordedEvent {
	for i, e := range events {
		if e.Evidence != nil && slices.Contains(urls(e.Evidence), source) {
			return &events[i]
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

// Gone returns the sources that are gone.
func (p *reviewPage) Gone() []goneSource { return gone(p.Sheet.Events) }

// Listed returns the fields of the listing that the review covers, besides the facts.
func (p *reviewPage) Listed() []reviewform.ListedField { return p.Form.Fields(p.Sheet.Edits) }

// Opinion reports whether this is a second opinion.
func (p *reviewPage) Opinion() bool { return p.Form.Opinion() != "" }

// Outcomes returns the outcomes to choose from.
func (p *reviewPage) Outcomes() []choice {
	return choices([]choice{
		{Value: string(api.OutcomeVerified), Label: "Verified", Key: "v"},
		{Value: string(api.OutcomeClosed) + "." + api.ClosedPaused, Label: "Closed for now", Key: "c"},
		{Value: string(api.OutcomeClosed) + "." + api.ClosedEnded, Label: "Ended", Key: "e"},
		{Value: string(api.OutcomeNeedsReview), Label: "Needs review", Key: "r"},
	}, "outcome", p.Form.Values.Get("outcome"))
}

// shownFact is a fact on the page.
type shownFact struct {
	reviewform.Fact

	Form     reviewform.Form
	Recorded []string
	Cites    string // numbers of the sources that it cites
	Choices  []choice
	Changed  bool // by the latest review
	Previous []string
	Newer    bool // recorded after the form was opened
	Before   []string
	Quotes   []quote            // stored ones, then suggestions
	Stored   int                // how many are stored
	Pasted   []pasted           // texts, then blank rows
	Texts    *api.ComparedTexts // to be compared by the author of a second opinion; nil if there is nothing to compare
	Same     []choice           // whether they mean the same
}

// pasted is a row of fields for a pasted quote.
type pasted struct {
	ID      string // suffix of the ids of its fields; empty in the first row
	Text    string
	Sources []choice
}

// Folded reports whether the fact is unknown and there is nothing to look at.
func (f shownFact) Folded() bool {
	decided := slices.ContainsFunc(f.Choices, func(c choice) bool { return c.Checked })
	return !f.Form.Known(f.Name) && !decided && !f.Newer && len(f.Quotes) == 0 && f.Pasted[0].Text == "" && f.Texts == nil
}

// Unquoted reports whether the fact has a value and no quote.
func (f shownFact) Unquoted() bool { return f.Form.Known(f.Name) && f.Stored == 0 }

// Fields reports whether the fact has input fields.
func (f shownFact) Fields() bool { return len(f.Options) == 0 }

// Entries returns the input fields.
func (f shownFact) Entries() []reviewform.Entry { return f.Form.Entries(f.Name) }

// Lower returns the label within a sentence.
func (f shownFact) Lower() string { return strings.ToLower(f.Label) }

// Facts returns the facts with their recorded values, quotes and decisions.
func (p *reviewPage) Facts() (all []shownFact) {
	base := p.Form.Base
	var changed []string
	if p.Sheet.PreviousFacts != nil {
		changed = reviewform.Differences(*p.Sheet.PreviousFacts, base)
	}
	for _, f := range reviewform.Facts {
		if !p.Form.Asks(f.Name) {
			continue
		}
		s := shownFact{Fact: f, Form: p.Form, Recorded: reviewform.Describe(base, f.Name),
			Cites: p.numbers(base.Cites(f.Name)...), Choices: p.choices(f)}
		if s.Changed = slices.Contains(changed, f.Name); s.Changed {
			s.Previous = reviewform.Describe(*p.Sheet.PreviousFacts, f.Name)
		}
		if s.Newer = p.Form.Again(f.Name); s.Newer && p.before != nil {
			s.Before = reviewform.Describe(*p.before, f.Name)
		}
		p.addQuotes(&s)
		if i := slices.IndexFunc(p.Texts, func(t api.ComparedTexts) bool { return t.Fact == f.Name }); i >= 0 {
			s.Texts = &p.Texts[i]
			s.Same = choices([]choice{{Value: "same", Label: "Same"}, {Value: "different", Label: "Different"}},
				reviewform.SameTexts(f.Name), p.Form.Values.Get(reviewform.SameTexts(f.Name)))
		}
		all = append(all, s)
	}
	return all
}

// blankQuotes is the number of blank rows for pasted quotes.
const blankQuotes = 2

// maxSuggestions bounds the suggestions for a fact: a curator reads them all.
const maxSuggestions = 3

// quoteKey returns the key of the quote of a fact with the index, empty if there are no more keys.
// The letters are keys of no value of a fact; digits mark sources.
func quoteKey(index int) string {
	const keys = "qbdhilstz"
	if index >= len(keys) {
		return ""
	}
	return keys[index : index+1]
}

// addQuotes adds the stored quotes of a fact, the suggestions, and the fields of a new quote.
func (p *reviewPage) addQuotes(s *shownFact) {
	add := func(q api.Quote, field string, reading *api.QuoteReading) {
		shown := quote{
			Quote: q, Field: field, Value: reviewform.QuoteValue(q), Key: quoteKey(len(s.Quotes)),
			Number: p.numbers(q.SourceURL), Reading: reading, Link: p.open(fragment(q.SourceURL, q.Exact)),
		}
		shown.Checked = slices.Contains(p.Form.Values[field], shown.Value)
		s.Quotes = append(s.Quotes, shown)
	}
	current := p.Sheet.CurrentQuotes()
	for i, q := range p.Sheet.Evidence.Quotes {
		if q.Fact == s.Name {
			var reading *api.QuoteReading
			if j := slices.IndexFunc(p.Sheet.Readings, func(r api.QuoteReading) bool { return r.Quote == q }); j >= 0 {
				reading = &p.Sheet.Readings[j]
			}
			add(current[i], reviewform.KeptQuotes(s.Name), reading)
		}
	}
	s.Stored = len(s.Quotes)
	for _, q := range p.Sheet.Suggestions {
		if q.Fact == s.Name && len(s.Quotes) < s.Stored+maxSuggestions {
			add(q, reviewform.UsedQuotes(s.Name), nil)
		}
	}
	rows := append(p.Form.Pasted(s.Name), make([]reviewform.PastedQuote, blankQuotes)...)
	for i, row := range rows {
		shown := pasted{Text: row.Text, Sources: p.quoteSources(row.Source)}
		if i > 0 {
			shown.ID = fmt.Sprintf(".%d", i)
		}
		s.Pasted = append(s.Pasted, shown)
	}
}

// quoteSources returns the sources as options of a select, then the listing's own pages that a
// quote makes sources.
func (p *reviewPage) quoteSources(chosen string) []choice {
	n := p.numbers(chosen) // a page that has become a source
	all := sourceChoices(p.Form, []string{cmp.Or(n, chosen)})
	for _, page := range []string{p.Sheet.Record.ApplicationURL, p.Sheet.Record.Company.Website} {
		listed := slices.ContainsFunc(all, func(c choice) bool { return c.Value == page })
		if api.ValidURL(page) && p.numbers(page) == "" && !listed {
			all = append(all, choice{Value: page, Label: shortURL(page), Checked: page == chosen})
		}
	}
	return all
}

func shortURL(u string) string {
	return compact(strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://"))
}

func sourceChoices(f reviewform.Form, chosen []string) (all []choice) {
	for _, o := range f.Numbered() {
		all = append(all, choice{Value: o.Value, Label: o.Label, Checked: slices.Contains(chosen, o.Value)})
	}
	return all
}

func (p *reviewPage) choices(f reviewform.Fact) []choice {
	var all []choice
	if p.Form.Known(f.Name) {
		all = []choice{{Value: reviewform.Keep, Label: "Keep", Key: "k", Describe: "recorded." + f.Name}}
	}
	for _, o := range f.Options {
		all = append(all, choice{Value: o.Value, Label: o.Label, Key: o.Key})
	}
	if len(f.Options) == 0 {
		all = append(all, choice{Value: reviewform.Change, Label: "Change", Key: "e"})
	}
	all = append(all, choice{Value: reviewform.Unknown, Label: "Cannot tell", Key: "x"})
	return choices(all, "fact."+f.Name, p.Form.Values.Get("fact."+f.Name))
}

func (p *reviewPage) numbers(urls ...string) string {
	var text []string
	for _, u := range urls {
		if i := slices.Index(p.Form.Sources, u); i >= 0 {
			text = append(text, fmt.Sprint(i+1))
		}
	}
	return strings.Join(text, ", ")
}

// finding describes what the machine found.
func finding(r *api.QuoteReading) template.HTML {
	text := map[api.Finding]string{
		api.QuotePresent: "still says so, read by a machine ",
		api.QuoteMoved: "moved: the words are there in other surroundings, which keeping the quote stores; " +
			"read by a machine ",
		api.QuoteMissing: "missing: a machine did not find the words ",
	}[r.Finding]
	if text == "" {
		text = "not read by a machine"
		if r.Note != "" {
			text += " (" + compact(r.Note) + ")"
		}
		text += " "
	}
	return template.HTML(template.HTMLEscapeString(text)) + instant(r.ReadAt) //nolint:gosec // escaped
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

// host returns the host of a URL, without www.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimPrefix(u.Hostname(), "www.")
}
