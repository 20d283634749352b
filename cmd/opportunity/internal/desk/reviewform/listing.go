package reviewform

import (
	"encoding/json"
	"slices"

	"opportunity.internal/cmd/opportunity/internal/desk/listingform"
	"opportunity.internal/pkg/api"
)

// listed are the fields of a listing that a review covers besides its facts and sources, with the
// shortcut of each.
var listed = []struct{ path, key string }{
	{"company.name", "n"}, {"company.website", "b"}, {"applicationUrl", "g"}, {"category", "t"},
	{"startingCost", "s"}, {"workModel", "k"},
}

// ListedField is a field of the listing on the form.
type ListedField struct {
	Input

	Key string // shortcut that follows f
	URL bool
	Old string // value that the latest review saw, if the field was changed since
}

// Fields returns the fields of the listing.
func (f Form) Fields(edits []api.ListingEdit) (all []ListedField) {
	for _, l := range listed {
		name := listedName(l.path)
		in := ListedField{Input: Input{Name: name, Label: listingform.LabelOf(l.path), Value: f.Values.Get(name)}, Key: l.key}
		switch l.path {
		case "company.name":
			in.Label = "Company"
		case "company.website", "applicationUrl":
			in.URL = true
		case "category":
			in.Kind, in.Options = "choice", options(api.Categories)
		}
		for _, e := range slices.Backward(edits) { // the oldest has the value that the latest review saw
			for _, c := range e.Changes {
				if c.Field == l.path {
					var old string
					_ = json.Unmarshal(c.Old, &old) // a text
					in.Old = old
					if old == "" {
						in.Old = "not recorded"
					}
				}
			}
		}
		all = append(all, in)
	}
	return all
}

func listedName(path string) string { return "listing." + path }

// list takes the fields of a listing. Those that the curator did not change follow it.
func (f *Form) list(r api.Opportunity) {
	now := map[string]string{
		"company.name": r.Company.Name, "company.website": r.Company.Website, "applicationUrl": r.ApplicationURL,
		"category": string(r.Category), "startingCost": r.StartingCost, "workModel": r.WorkModel,
	}
	for path, value := range now {
		if name := listedName(path); f.Listed == nil || f.Values.Get(name) == f.Listed[path] {
			f.Values.Set(name, value)
		}
	}
	f.Listed = now
	text, _ := json.Marshal(now) // texts always encode
	f.Values.Set(fieldListed, string(text))
}

// Changes returns what the curator changed in the listing.
func (f Form) Changes() (all []api.FieldChange) {
	for _, l := range listed {
		before, after := f.Listed[l.path], f.Values.Get(listedName(l.path))
		if f.Opinion() == "" && f.Values.Has(listedName(l.path)) && before != after {
			encode := func(text string) json.RawMessage {
				encoded, _ := json.Marshal(text) // a text always encodes
				return encoded
			}
			all = append(all, api.FieldChange{Field: l.path, Old: encode(before), New: encode(after)})
		}
	}
	return all
}
