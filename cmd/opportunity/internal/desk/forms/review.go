package forms

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Review is the form of a factual review.
//
// The input stays url.Values, so that a page can always show it again and a draft can store it.
// Each fact has a decision. A fact is kept (the recorded value still holds), set to one of its
// options, changed to the input in its own fields, or unknown. A missing decision about a known
// fact is an error unless "rest" keeps the facts without one. A fact that was unknown stays
// unknown.
type Review struct {
	Values url.Values
	Base   api.Facts // recorded facts that the curator was shown
}

// Decisions about a fact. An option's value is a decision too.
const (
	Keep    = "keep"
	Change  = "change"
	Unknown = "unknown"
)

// Marks of a source. One without a mark was not opened, unless the curator used a quote from it.
const (
	StillSo    = "still"     // still says so
	Otherwise  = "otherwise" // says otherwise
	Gone       = "gone"
	CannotOpen = "cannot"
)

// Names of fields, besides those of the facts, the listing ("listing." and a path) and the marks
// ("mark." and the index of a source).
const (
	fieldShown   = "shown" // checkedAt of the review
	fieldSeen    = "seen"  // newest event on the sheet
	fieldBase    = "base"  // recorded facts on the sheet, as JSON
	fieldOpinion = "opinion"
	fieldOnly    = "only" // facts that the second opinion is about
	fieldSource  = "source"
	fieldWas     = "was."  // with a path: field of the listing on the sheet
	fieldAgain   = "again" // facts that another review changed since: each needs a decision of its own
	fieldAsked   = "asked" // added quotes that their page lacks, about which the curator was asked; as JSON
	fieldRest    = "rest"
	fieldOutcome = "outcome"
	fieldNote    = "note"
	fieldMore    = "more" // further source URLs, one on each line
)

// NewReview returns the form of a sheet, with the marks and decisions that the machine's readings
// of its quotes allow. opinion is the id of the review that a second opinion is about, or empty.
func NewReview(sheet api.ReviewSheet, opinion string) Review {
	f := Review{Values: url.Values{fieldOpinion: {opinion}, fieldOnly: sheet.OpinionFacts}}
	f.renew(sheet)
	for _, fact := range Facts {
		f.fill(fact)
	}
	if opinion == "" {
		f.premark(sheet)
	}
	return f
}

// ParseReview returns the form with submitted or stored input. It returns ErrForeign for input
// that no form of the desk sends.
func ParseReview(values url.Values) (Review, error) {
	f := Review{Values: values}
	if err := json.Unmarshal([]byte(values.Get(fieldBase)), &f.Base); err != nil {
		return f, fmt.Errorf("%w: its recorded facts: %w", ErrForeign, err)
	}
	f.Base.Complete()
	f.adopt()
	return f, nil
}

// renew makes the form one of a newer sheet, with its stored quotes. Fields of the listing that the
// curator did not change follow it.
func (f *Review) renew(sheet api.ReviewSheet) {
	f.Base = sheet.CurrentFacts()
	f.Values.Set(fieldShown, sheet.GeneratedAt.UTC().Format(time.RFC3339Nano))
	f.Values.Set(fieldSeen, sheet.LastEventID)
	f.Values.Set(fieldBase, string(encode(f.Base)))
	f.add(sources(sheet, f.Base)...)
	r := sheet.Record
	for path, value := range map[string]string{
		"company.name": r.Company.Name, "company.website": r.Company.Website, "applicationUrl": r.ApplicationURL,
		"category": string(r.Category), "startingCost": r.StartingCost, "workModel": r.WorkModel,
	} {
		if was := fieldWas + path; !f.Values.Has(was) || f.Values.Get(listed(path)) == f.Values.Get(was) {
			f.Values.Set(listed(path), value)
		}
		f.Values.Set(fieldWas+path, value)
	}
	for _, name := range api.FactNames {
		f.Values.Del(KeptQuotes + name)
	}
	for _, q := range sheet.CurrentQuotes() {
		f.Values.Add(KeptQuotes+q.Fact, string(encode(q)))
	}
}

// sources returns the sources of the latest review, then the other sources of the record, those of
// its quotes and those that facts cite, and the website if there is no other. Those that the latest
// review found gone are left out, unless a fact cites them.
func sources(sheet api.ReviewSheet, facts api.Facts) (urls []string) {
	if i := slices.IndexFunc(sheet.Events,
		func(e api.RecordedEvent) bool { return e.CheckType == api.FactualReview && len(e.SourceURLs) > 0 }); i >= 0 {
		urls = slices.Clone(sheet.Events[i].SourceURLs)
	}
	for _, s := range sheet.Record.Sources {
		urls = append(urls, s.URL)
	}
	for _, q := range sheet.Evidence.Quotes {
		urls = append(urls, q.SourceURL)
	}
	urls = slices.DeleteFunc(urls, func(u string) bool { return slices.Contains(sheet.Evidence.Gone, u) })
	if urls = append(urls, facts.Cites(api.FactNames...)...); len(urls) == 0 {
		urls = []string{sheet.Record.Company.Website}
	}
	return urls
}

// adopt turns the further pages into sources that still say so, and the pages of added quotes into
// sources. It leaves further pages that are no URL.
func (f *Review) adopt() {
	var invalid []string
	for _, u := range lines(f.Values.Get(fieldMore)) {
		switch {
		case !api.ValidURL(u):
			invalid = append(invalid, u)
		case !slices.Contains(f.Sources(), u):
			f.Values.Set(markOf(len(f.Sources())), StillSo)
			f.add(u)
		}
	}
	f.Values.Set(fieldMore, strings.Join(invalid, "\n"))
	for _, q := range f.Added() {
		f.add(q.SourceURL)
	}
}

// add adds sources that the form does not have yet.
func (f *Review) add(urls ...string) {
	for _, u := range urls {
		if !slices.Contains(f.Sources(), u) {
			f.Values.Add(fieldSource, u)
		}
	}
}

// Rebase updates a form for a newer sheet and returns the facts whose recorded value changed.
// Decisions about those facts are removed, whatever they were: the curator decided about another
// value. A newer review with another outcome removes the outcome too. Other input stays.
func (f *Review) Rebase(sheet api.ReviewSheet) (changed []string) {
	changed = Differences(f.Base, sheet.CurrentFacts())
	for _, name := range api.FactNames { // the common decision does not apply to new values
		if f.Values.Get("fact."+name) == "" && f.Decision(name) == Keep {
			f.Values.Set("fact."+name, Keep)
		}
	}
	f.Values.Del(fieldRest)
	if f.outdatedOutcome(sheet) {
		f.Values.Del(fieldOutcome)
	}
	f.renew(sheet)
	for _, name := range changed {
		if f.Values.Get("fact."+name) != Change {
			f.fill(find(Facts, name))
		}
		f.Values.Del("fact." + name)
		f.Values.Del(UsedQuotes + name)
		f.Values.Del(StillQuotes + name)
		if !f.Again(name) {
			f.Values.Add(fieldAgain, name)
		}
	}
	return changed
}

// outdatedOutcome reports whether a review that is newer than the form had another outcome.
func (f Review) outdatedOutcome(sheet api.ReviewSheet) bool {
	for _, e := range sheet.Events {
		if e.ID == f.Seen() {
			return false
		}
		if e.CheckType == api.FactualReview {
			return e.Outcome != f.outcome()
		}
	}
	return false
}

// Again reports whether another review changed the fact, so that it needs a decision of its own.
func (f Review) Again(name string) bool { return slices.Contains(f.Values[fieldAgain], name) }

// Known reports whether the fact has a recorded value.
func (f Review) Known(name string) bool { return string(Values(f.Base)[name]) != string(unknown[name]) }

// outcome returns the outcome, without the reason of closed.
func (f Review) outcome() api.Outcome {
	outcome, _, _ := strings.Cut(f.Values.Get(fieldOutcome), ".")
	return api.Outcome(outcome)
}

// Asks reports whether the form is about a fact: a second opinion is about a few.
func (f Review) Asks(name string) bool {
	only := f.Values[fieldOnly]
	return len(only) == 0 || slices.Contains(only, name)
}

// Decision returns the decision about a fact, empty if there is none and one is needed.
func (f Review) Decision(name string) string {
	decision := f.Values.Get("fact." + name)
	closed := f.outcome() == api.OutcomeClosed
	switch {
	case !f.Asks(name):
		return Unknown
	case decision == "" && f.Again(name):
	case closed && name == "applicationStatus":
		return closedStatus
	case closed && (decision == "" || decision == Keep):
		return f.carried(name)
	case decision == "" && !f.Known(name):
		return Unknown
	case decision == "" && f.Values.Get(fieldRest) == Keep:
		return Keep
	}
	return decision
}

// carried returns what becomes of a fact in a review that ends in closed if nothing else is
// decided: it is kept, unless it cites a page that cannot be used.
func (f Review) carried(name string) string {
	if slices.ContainsFunc(f.Base.Cites(name), f.unusable) {
		return Unknown
	}
	return Keep
}

// unusable reports whether a source is marked as gone or not opened.
func (f Review) unusable(source string) bool {
	return f.Mark(source) == Gone || f.Mark(source) == CannotOpen
}

// Hidden returns the names of the fields that the curator does not see.
func (Review) Hidden() []string {
	names := []string{fieldShown, fieldSeen, fieldBase, fieldOpinion, fieldOnly, fieldAgain, fieldAsked}
	for _, path := range api.ReviewedFields {
		names = append(names, fieldWas+path)
	}
	return names
}

// Chosen reports whether a value of a field is chosen.
func (f Review) Chosen(name, value string) bool { return slices.Contains(f.Values[name], value) }

// Sources returns the sources, which pages number from 1.
func (f Review) Sources() []string { return f.Values[fieldSource] }

// Seen returns the id of the newest event on the sheet of the form.
func (f Review) Seen() string { return f.Values.Get(fieldSeen) }

// Opinion returns the id of the review that the second opinion is about, empty for an ordinary
// review.
func (f Review) Opinion() string { return f.Values.Get(fieldOpinion) }

func markOf(index int) string { return fmt.Sprintf("mark.%d", index) }

// Mark returns the mark of a source, empty if it was not opened. A page from which the curator
// takes a quote says so.
func (f Review) Mark(source string) string {
	if i := slices.Index(f.Sources(), source); i >= 0 && f.Values.Get(markOf(i)) != "" {
		return f.Values.Get(markOf(i))
	}
	if slices.ContainsFunc(f.Added(), func(q api.Quote) bool { return q.SourceURL == source }) {
		return StillSo
	}
	return ""
}

// opened returns the sources whose content the curator saw.
func (f Review) opened() []string {
	return slices.DeleteFunc(append([]string{}, f.Sources()...), func(u string) bool {
		return f.Mark(u) != StillSo && f.Mark(u) != Otherwise
	})
}

// Listed is a field of the listing that the review covers.
type Listed struct {
	Field

	Old string // value that the latest review saw, if the field was changed since
}

// PageKey returns the shortcut that opens the page, empty if the field is none.
func (l Listed) PageKey() string {
	return map[string]string{"website": "w", "applicationUrl": "a"}[l.Name]
}

// Listed returns the fields of the listing.
func (f Review) Listed(edits []api.ListingEdit) (all []Listed) {
	for _, path := range api.ReviewedFields {
		l := Listed{Field: at(path)}
		l.Path, l.Values, l.Placeholder = listed(path), f.Values[listed(path)], recordedText("")
		for _, e := range slices.Backward(edits) { // the oldest has the value that the latest review saw
			for _, c := range e.Changes {
				if c.Field == path {
					_ = json.Unmarshal(c.Old, &l.Old) // a text
					l.Old = recordedText(l.Old)
				}
			}
		}
		all = append(all, l)
	}
	return all
}

func recordedText(text string) string {
	if text == "" {
		return "not recorded"
	}
	return text
}

func listed(path string) string { return "listing." + path }

// Changes returns what the curator changed in the listing.
func (f Review) Changes() (all []api.FieldChange) {
	for _, path := range api.ReviewedFields {
		before, after := f.Values.Get(fieldWas+path), f.Values.Get(listed(path))
		if f.Opinion() == "" && f.Values.Has(listed(path)) && before != after {
			all = append(all, api.FieldChange{Field: path, Old: encode(before), New: encode(after)})
		}
	}
	return all
}

// fill sets the inputs of a fact to its recorded value. Unknown countries and pay begin with
// Canada.
func (f Review) fill(fact Field) {
	if fact.Kind == Decision {
		return
	}
	maps.DeleteFunc(f.Values, func(name string, _ []string) bool { return strings.HasPrefix(name, fact.Name+".") })
	recorded, _ := decode(encode(f.Base)) // facts always encode
	fill([]Field{fact}, "", recorded, f.Values)
	switch {
	case fact.Name == "pay" && f.Base.Pay == nil:
		f.Values.Set("pay.currency", "CAD")
	case fact.Name == "countryEligibility" && len(f.Base.CountryEligibility) == 0:
		f.Values.Set("countryEligibility.0.country", canada)
	}
}

// Inputs returns the inputs of a fact in groups: one of each country or risk indicator, with a
// blank one at the end.
func (f Review) Inputs(fact Field) (groups []Field) {
	shown := show([]Field{fact}, "", f.Values)[0]
	switch shown.Kind {
	case Decision:
		return nil
	case List:
		for i, entry := range shown.Fields {
			shown.Fields[i].Fields = f.boxes(entry)
		}
		return shown.Fields
	case Group:
		return []Field{shown}
	}
	if shown.Label = "New " + strings.ToLower(shown.Label[:1]) + shown.Label[1:]; shown.Kind == Lines {
		shown.Label += ", one on each line"
	}
	return []Field{{Label: shown.Label, Fields: []Field{shown}}}
}

// boxes returns the inputs of an entry. Canada has a box for each region, unless it has regions of
// both kinds or unknown ones.
func (f Review) boxes(entry Field) (inputs []Field) {
	in, not := f.Values[entry.Path+".includedRegions"], f.Values[entry.Path+".excludedRegions"]
	kind := cmp.Or(f.Values.Get(entry.Path+".regions"), "in")
	if in, not = regions(canada, in), regions(canada, not); len(in) == 0 && len(not) > 0 {
		in, not, kind = not, nil, "notin"
	}
	isProvince := func(code string) bool { return regionNames([]string{code}) != code }
	if f.Values.Get(entry.Path+".country") != canada || len(not) > 0 || !all(in, isProvince) {
		return entry.Fields
	}
	for _, c := range entry.Fields {
		switch c.Name {
		case "includedRegions":
			inputs = append(inputs, Field{Label: "Chosen regions", Kind: Choice, Path: entry.Path + ".regions",
				Values: []string{kind}, Options: []Option{{"in", "are the only ones", ""}, {"notin", "are excluded", ""}}})
			c.Label, c.Kind, c.Options, c.Values = "Regions", Boxes, provinces, in
		case "excludedRegions":
			continue
		}
		inputs = append(inputs, c)
	}
	return inputs
}

func all(texts []string, is func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !is(text) })
}

// completed returns the input of a fact with all that it implies: the codes of regions, and as
// sources the pages of the quotes that the curator adds to the fact, if none is chosen.
func (f Review) completed(fact Field) url.Values {
	input := maps.Clone(f.Values)
	paths := []string{fact.Name}
	if fact.Path = fact.Name; fact.Kind == List {
		paths = nil
		for i := range fact.entries(input) {
			paths = append(paths, entryPath(fact.Path, i))
		}
	}
	for _, at := range paths {
		for _, c := range fact.Fields {
			name := join(at, c.Name)
			switch {
			case c.Name == "country", c.Name == "currency":
				input.Set(name, strings.ToUpper(strings.TrimSpace(input.Get(name))))
			case c.Kind == Regions:
				input[name] = regions(input.Get(at+".country"), input[name])
			case (c.Kind == Source || c.Kind == Sources) && strings.Join(input[name], "") == "":
				input[name] = nil
				for _, q := range f.added(fact.Name) {
					if len(input[name]) == 0 || c.Kind == Sources && !slices.Contains(input[name], q.SourceURL) {
						input.Add(name, q.SourceURL)
					}
				}
			}
		}
		if in, not := at+".includedRegions", at+".excludedRegions"; input.Get(at+".regions") == "notin" {
			input[in], input[not] = nil, append(input[not], input[in]...)
		}
	}
	return input
}
