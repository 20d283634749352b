package desk

import (
	"fmt"
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
	URL           string
	Marks         []choice
	Quotes        []quote
	Quote         string // input of a new quote
	QuoteFacts    []choice
}

// quote is a stored quote.
type quote struct {
	api.Quote

	Index  int
	Forget bool // the form removes it
}

// ID identifies the quote in the form.
func (q quote) ID() string { return reviewform.QuoteID(q.Quote) }

var marks = []choice{
	{Value: string(reviewform.StillSo), Label: "Still says so", Key: "1"}, {Value: string(reviewform.Otherwise), Label: "Says otherwise", Key: "2"},
	{Value: string(reviewform.Gone), Label: "Gone", Key: "3"}, {Value: string(reviewform.CannotOpen), Label: "Cannot open", Key: "4"},
}

var payUnits = []api.PayUnit{api.PerHour, api.PerYear, api.PerTask, api.PerAudioMinute}

// choices returns radio buttons of a field with its current value.
func choices(all []choice, name, now string) []choice {
	all = slices.Clone(all)
	for i := range all {
		all[i].Name, all[i].Checked = name, all[i].Value == now
	}
	return all
}

// Sources returns the sources with their marks and quotes.
func (p *reviewPage) Sources() (all []source) {
	for i, u := range p.Form.Sources {
		s := source{Index: i, Number: i + 1, URL: u, Quote: p.Form.Values.Get(fmt.Sprintf("quote.%d", i))}
		s.Marks = choices(marks, fmt.Sprintf("mark.%d", i), string(p.Form.Mark(u)))
		for n, q := range p.Sheet.Evidence.Quotes {
			if q.SourceURL == u {
				s.Quotes = append(s.Quotes, quote{q, n, p.Form.Values.Get(fmt.Sprintf("forget.%d", n)) == reviewform.QuoteID(q)})
			}
		}
		for _, name := range api.FactNames {
			s.QuoteFacts = append(s.QuoteFacts, choice{Value: name, Label: reviewform.Label(name), Checked: name == p.Form.Values.Get(fmt.Sprintf("quotefact.%d", i))})
		}
		all = append(all, s)
	}
	return all
}

// Opinion reports whether this is a second opinion.
func (p *reviewPage) Opinion() bool { return p.Form.Opinion() != "" }

// Outcomes returns the outcomes to choose from.
func (p *reviewPage) Outcomes() []choice {
	return choices([]choice{
		{Value: string(api.OutcomeVerified), Label: "Verified", Key: "v"}, {Value: string(api.OutcomeClosed), Label: "Closed", Key: "c"},
		{Value: string(api.OutcomeNeedsReview), Label: "Needs review", Key: "r"},
	}, "outcome", p.Form.Values.Get("outcome"))
}

// factGroup is a group of facts on the page.
type factGroup struct {
	Title string
	Facts []shownFact
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
	Differs  bool // from the listing's own value
	Own      []string
	Newer    bool // recorded after the form was opened
	Before   []string
	Wrong    string
}

// Fields reports whether the fact has input fields.
func (f shownFact) Fields() bool { return len(f.Options) == 0 }

// Lower returns the label within a sentence.
func (f shownFact) Lower() string { return strings.ToLower(f.Label) }

// Groups returns the facts with their recorded values and decisions.
func (p *reviewPage) Groups() (groups []factGroup) {
	base := p.Form.Base
	var changed, differs []string
	if p.Sheet.PreviousFacts != nil {
		changed = reviewform.Differences(*p.Sheet.PreviousFacts, base)
	}
	if p.Sheet.OwnFacts != nil {
		differs = reviewform.Differences(*p.Sheet.OwnFacts, base)
	}
	for _, g := range reviewform.Groups {
		group := factGroup{Title: g.Title}
		for _, f := range g.Facts {
			s := shownFact{Fact: f, Form: p.Form, Recorded: reviewform.Describe(base, f.Name), Cites: p.numbers(reviewform.Cites(base, f.Name))}
			s.Choices = p.choices(f)
			if s.Changed = slices.Contains(changed, f.Name); s.Changed {
				s.Previous = reviewform.Describe(*p.Sheet.PreviousFacts, f.Name)
			}
			if s.Differs = slices.Contains(differs, f.Name); s.Differs {
				s.Own = reviewform.Describe(*p.Sheet.OwnFacts, f.Name)
			}
			if s.Newer = slices.Contains(p.reopened, f.Name); s.Newer {
				s.Before = reviewform.Describe(p.before, f.Name)
			}
			group.Facts = append(group.Facts, s)
		}
		groups = append(groups, group)
	}
	return groups
}

// choices returns the decisions about a fact.
func (p *reviewPage) choices(f reviewform.Fact) []choice {
	all := []choice{{Value: reviewform.Keep, Label: "Keep", Key: "k", Describe: "recorded." + f.Name}}
	for _, o := range f.Options {
		all = append(all, choice{Value: o.Value, Label: o.Label, Key: o.Key})
	}
	if len(f.Options) == 0 {
		all = append(all, choice{Value: reviewform.Change, Label: "Change", Key: "e"})
	}
	all = append(all, choice{Value: reviewform.Unknown, Label: "Cannot tell", Key: "x"})
	return choices(all, "fact."+f.Name, p.Form.Values.Get("fact."+f.Name))
}

// numbers returns the numbers of sources on the page.
func (p *reviewPage) numbers(urls []string) string {
	var text []string
	for _, u := range urls {
		if i := slices.Index(p.Form.Sources, u); i >= 0 {
			text = append(text, fmt.Sprint(i+1))
		}
	}
	return strings.Join(text, ", ")
}

// input is a text field of the form.
type input struct {
	Name, Label, Value string
	Max                int
}

func newInput(f reviewform.Form, prefix, name, label string, limit int) input {
	return input{prefix + name, label, f.Values.Get(prefix + name), limit}
}

// fragment returns the URL of a page, scrolled to a text (a text fragment). A page that has a fragment already keeps it.
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
