package desk

import (
	"net/url"
	"slices"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

// recordPage is the data of the page of a record.
type recordPage struct {
	Detail    api.ListingDetail
	Sheet     api.ReviewSheet
	Publish   bool           // whether the role can publish and withdraw
	Candidate *api.Candidate // nil unless the record is private
}

// Facts returns the facts in the order of the page.
func (recordPage) Facts() []forms.Field { return forms.Facts }

// Fact returns the value of a fact that consumers see.
func (p recordPage) Fact(name string) []string { return forms.Describe(p.Detail.Record.Facts, name) }

// recordedReview is a review with the facts that it changed.
type recordedReview struct {
	api.RecordedEvent

	Changes []string
}

// Reviews returns the reviews, newest first.
func (p recordPage) Reviews() (all []recordedReview) {
	before := api.UnknownFacts()
	for _, e := range slices.Backward(p.Sheet.Events) {
		if e.CheckType != api.FactualReview {
			continue
		}
		r := recordedReview{RecordedEvent: e}
		if e.Facts != nil {
			r.Changes, before = forms.Changes(before, *e.Facts), *e.Facts
		}
		all = append(all, r)
	}
	slices.Reverse(all)
	return all
}

// LinkChecks returns the link checks, newest first.
func (p recordPage) LinkChecks() []api.RecordedEvent {
	return slices.DeleteFunc(slices.Clone(p.Sheet.Events), func(e api.RecordedEvent) bool {
		return e.CheckType == api.FactualReview
	})
}

// Gone returns the sources that are gone.
func (p recordPage) Gone() []goneSource { return gone(p.Sheet.Events) }

// publishes reports whether the person's role can publish and withdraw.
func publishes(v *visit) bool { return slices.Contains(publishers, api.Role(v.Session.Role)) }

func (d *Desk) record(v *visit) (view, error) {
	page := recordPage{Publish: publishes(v)}
	var err error
	if page.Detail, err = call(v, adminapi.GetListing, adminapi.Input{ID: v.PathValue("id")}); err != nil {
		return view{}, err
	}
	if page.Sheet, err = sheet(v, v.PathValue("id"), ""); err != nil {
		return view{}, err
	}
	if page.Sheet.Visibility == "private" {
		if page.Candidate, err = candidate(v, v.PathValue("id")); err != nil {
			return view{}, err
		}
	}
	return view{Template: "record", Title: page.Detail.Record.Company.Name, Data: page}, nil
}

func recordPath(id string) string { return "/records/" + url.PathEscape(id) }
