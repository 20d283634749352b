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

// NewReview returns the form of a sheet, with the states and decisions that the machine's readings
// of its quotes allow. opinion is the id of the review that a second opinion is about, or empty.
func NewReview(sheet api.ReviewSheet, opinion string) Review {
	f := Review{Values: url.Values{fieldOpinion: {opinion}, fieldOnly: sheet.OpinionFacts}}
	f.renew(sheet)
	for _, fact := range Facts {
		f.fill(fact)
	}
	if opinion == "" {
		f.prefill(sheet)
	}
	return f
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

// prefill sets the states of the sources, and keeps the facts, whose every quote the machine found
// again. If that is the whole record and nothing puts it in doubt, the outcome is verified. A quote
// that is missing is not kept. The curator checks both and submits.
func (f *Review) prefill(sheet api.ReviewSheet) {
	said := Confirmed(sheet)
	for _, r := range sheet.Readings {
		if kept := KeptQuotes + r.Fact; r.Finding == api.QuoteMissing { // the fact needs another quote
			f.Values[kept] = slices.DeleteFunc(f.Values[kept], func(value string) bool { return value == QuoteValue(r.Quote) })
		}
	}
	for i, u := range f.Sources() {
		if said[u] {
			f.Values.Set(stateOf(i), StillSo)
		}
	}
	kept, complete := 0, true
	for _, name := range api.FactNames {
		if !f.Known(name) {
			continue
		}
		urls, quotes := f.Base.Cites(name), f.quotes(KeptQuotes+name)
		for _, q := range quotes {
			urls = append(urls, q.SourceURL)
		}
		if len(quotes) == 0 || !all(urls, func(u string) bool { return said[u] }) {
			complete = false
			continue
		}
		f.Values.Set("fact."+name, Keep)
		kept++
	}
	doubtful := slices.ContainsFunc(sheet.Reasons, func(r api.DueReason) bool { return r.Why != api.DueStale })
	if complete && kept > 0 && !doubtful && len(sheet.Edits) == 0 && sheet.Opinion == nil {
		f.Values.Set(fieldOutcome, string(api.OutcomeVerified))
	}
}

// Confirmed returns the sources in which the machine found every stored quote again.
func Confirmed(sheet api.ReviewSheet) map[string]bool {
	said := map[string]bool{}
	for _, q := range sheet.Evidence.Quotes {
		reading := ReadingOf(sheet, q)
		before, seen := said[q.SourceURL]
		said[q.SourceURL] = reading != nil && reading.Finding == api.QuotePresent && (before || !seen)
	}
	return said
}

// ReadingOf returns what the machine found for a stored quote, nil if it did not look for it.
func ReadingOf(sheet api.ReviewSheet, q api.Quote) *api.QuoteReading {
	if i := slices.IndexFunc(sheet.Readings, func(r api.QuoteReading) bool { return r.Quote == q }); i >= 0 {
		return &sheet.Readings[i]
	}
	return nil
}

func all(texts []string, is func(string) bool) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !is(text) })
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

// Hidden returns the names of the fields that the curator does not see.
func (Review) Hidden() []string {
	names := []string{fieldShown, fieldSeen, fieldBase, fieldOpinion, fieldOnly, fieldAgain, fieldAsked}
	for _, path := range api.ReviewedFields {
		names = append(names, fieldWas+path)
	}
	return names
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

// Summary returns what the input would record: a sentence, and a line for each fact that changes or
// whose input is wrong.
func (f Review) Summary() string {
	if f.outcome() == api.OutcomeNeedsReview && !f.decided() {
		return "Needs review: no facts are recorded."
	}
	facts, _ := f.facts()
	recorded, now := Values(f.Base), Values(facts)
	kept, unknowns, undecided := 0, 0, 0
	var details []string
	for _, c := range f.Changes() {
		before, after := f.Values.Get(fieldWas+c.Field), f.Values.Get(listed(c.Field))
		details = append(details, LabelOf(c.Field)+": "+recordedText(before)+" → "+recordedText(after))
	}
	for _, name := range api.FactNames {
		_, wrong := f.value(find(Facts, name))
		switch {
		case !f.Asks(name):
		case f.Decision(name) == "":
			undecided++
		case len(wrong) > 0:
			details = append(details, wrong[0].Message)
		case string(now[name]) != string(recorded[name]):
			details = append(details, f.change(facts, name))
		case string(now[name]) == string(unknown[name]):
			unknowns++
		default:
			kept++
		}
	}
	changed := ""
	if len(details) > 0 {
		changed = fmt.Sprintf(" %d changed,", len(details))
	}
	text := fmt.Sprintf("%s: %s,%s %d unknown, %s.", outcomes[f.outcome()], Count(kept, "fact kept", "facts kept"),
		changed, unknowns, Count(len(f.evidence(&facts).Quotes), "quote", "quotes"))
	if undecided > 0 {
		text += " " + Count(undecided, "fact needs", "facts need") + " a decision."
	}
	return strings.Join(append([]string{text}, details...), "\n")
}

// change describes the old and the new value of a fact. Values that differ only in what they cite
// are described by their sources.
func (f Review) change(facts api.Facts, name string) string {
	describe := func(facts api.Facts) string {
		return cmp.Or(strings.Join(Describe(facts, name), "; "), "unknown")
	}
	before, after := describe(f.Base), describe(facts)
	if before == after {
		before, after = f.sourcesOf(f.Base, name), f.sourcesOf(facts, name)
	}
	return fmt.Sprintf("%s: %s → %s", FactLabel(name), before, after)
}

func (f Review) sourcesOf(facts api.Facts, name string) string {
	var names []string
	for _, u := range facts.Cites(name) {
		names = append(names, f.nameOf(u))
	}
	return "cites " + cmp.Or(strings.Join(names, ", "), "no source")
}

// outcomes are the labels of the outcomes in a sentence; that of closed says what it implies.
var outcomes = map[api.Outcome]string{
	"": "No outcome yet", api.OutcomeVerified: "Verified", api.OutcomeNeedsReview: "Needs review",
	api.OutcomeClosed: "Closed, and the application status becomes closed",
}

// Count returns a number with the words for it: one for 1, many for others.
func Count(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// PagesDue says which pages of a record are read now, or why none is.
func PagesDue(due api.PagesDue) string {
	if due.Pages == 0 {
		return due.Note
	}
	return Count(due.Pages, "page is", "pages are") + " due. " + due.Note
}
