package desk

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/reviewform"
	"opportunity.internal/pkg/api"
)

// recordsPage is the data of the list of records.
type recordsPage struct {
	Listings []api.ListedListing
	Filters  url.Values
	More     string
}

func (d *Desk) records(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "text", "visibility", "status", "category", "after")
	list, _, err := v.client.ListingList(v.Context(), adminapi.Page{Limit: 100}, pairs(filters)...)
	if err != nil {
		return view{}, err
	}
	page := recordsPage{Listings: list.Listings, Filters: filters}
	page.More = more("/records", filters, "after", list.Next)
	return view{Template: "records", Title: "Records", Data: page}, nil
}

// recordPage is the data of the page of a record.
type recordPage struct {
	Detail    api.ListingDetail
	Sheet     api.ReviewSheet
	Listing   listing
	Publish   bool           // whether the role can publish and withdraw
	Candidate *api.Candidate // nil unless the record is private
	Compared  bool           // whether there are two events or sets of facts to compare
}

// listing is the part of a listing that consumers do not see.
type listing struct {
	Visibility string       `json:"visibility"`
	Curation   api.Curation `json:"curation"`
}

// Facts returns the label and the value of each fact that consumers see.
func (p recordPage) Facts() (facts []struct {
	Label string
	Lines []string
}) {
	for _, f := range reviewform.Facts {
		facts = append(facts, struct {
			Label string
			Lines []string
		}{f.Label, reviewform.Describe(p.Detail.Record.Facts, f.Name)})
	}
	return facts
}

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
			r.Changes, before = reviewform.Changes(before, *e.Facts), *e.Facts
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
	if page.Detail, _, err = v.client.Listing(v.Context(), v.PathValue("id")); err != nil {
		return view{}, err
	}
	if err := json.Unmarshal(page.Detail.Listing, &page.Listing); err != nil {
		return view{}, err
	}
	if page.Sheet, err = d.sheet(v, v.PathValue("id"), ""); err != nil {
		return view{}, err
	}
	if page.Listing.Visibility == "private" {
		if page.Candidate, err = d.candidate(v, v.PathValue("id")); err != nil {
			return view{}, err
		}
	}
	page.Compared = len(sides(page.Sheet)) > 1
	return view{Template: "record", Title: page.Detail.Record.Company.Name, Data: page}, nil
}

// changedRecord returns to a record after an action, or shows why it was rejected.
func changedRecord(id string, report api.ImportReport, done string) view {
	if len(report.Rejected) > 0 {
		return view{Template: "confirm", Title: "Nothing was changed", Status: http.StatusUnprocessableEntity,
			Data: confirm{ID: id, Rejected: report.Rejected, Back: recordPath(id)}}
	}
	return view{Redirect: recordPath(id), Notice: done}
}

func recordPath(id string) string { return "/records/" + url.PathEscape(id) }
