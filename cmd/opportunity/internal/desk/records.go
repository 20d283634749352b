package desk

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

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

// askPublish shows what publishing a record does.
func (d *Desk) askPublish(v *visit) (view, error) {
	id := v.PathValue("id")
	report, _, err := v.client.Publish(v.Context(), []string{id}, false, true)
	if err != nil {
		return view{}, err
	}
	candidate, err := d.candidate(v, id)
	if err != nil {
		return view{}, err
	}
	return confirmation(confirm{
		ID: id, Candidate: candidate, Action: recordPath(id) + "/publish", Lane: v.FormValue("lane") != "", Button: "Publish record", Rejected: report.Rejected, Back: recordPath(id),
		Text: []string{
			"Consumers see the record from now on. Your name and the time are recorded as its editorial review.",
			map[bool]string{
				true:  "It was never reviewed: consumers see it as unverified until a curator reviews its facts.",
				false: "Its facts were reviewed before.",
			}[report.NeverReviewed > 0],
		},
	}), nil
}

func (d *Desk) publish(v *visit) (view, error) {
	id := v.PathValue("id")
	report, _, err := v.client.Publish(v.Context(), []string{id}, false, false)
	if err != nil {
		return view{}, err
	}
	response := changedRecord(id, report, "Published "+id+".")
	if v.PostFormValue("lane") != "" && response.Redirect != "" {
		return d.nextCandidate(v, &notice{Text: response.Notice})
	}
	return response, nil
}

// askWithdraw shows what withdrawing a record does.
func (d *Desk) askWithdraw(v *visit) (view, error) {
	id := v.PathValue("id")
	return confirmation(confirm{
		ID: id, Action: recordPath(id) + "/withdraw", Button: "Withdraw record", Danger: true, Reason: true, Back: recordPath(id),
		Text: []string{
			"Consumers get this response for the record, as if it had never existed. Its history stays, and you can publish it again.",
		},
		Preview: "GET /api/v1/opportunities/" + id + "\nHTTP/1.1 404 Not Found\n\n" +
			`{"error":{"code":"not_found","message":"There is no such record, or it is not part of your plan."}}`,
	}), nil
}

func (d *Desk) withdraw(v *visit) (view, error) {
	id, reason := v.PathValue("id"), strings.TrimSpace(v.PostFormValue("reason"))
	if reason == "" {
		return missingReason(d.askWithdraw(v))
	}
	report, _, err := v.client.Withdraw(v.Context(), []string{id}, reason)
	if err != nil {
		return view{}, err
	}
	return changedRecord(id, report, "Withdrew "+id+"."), nil
}

// confirm is a page that shows the consequences of an action before it happens.
type confirm struct {
	ID, Action, Button string
	Text               []string
	Candidate          *api.Candidate // its checklist; nil if it is none
	Lane               bool           // go on with the next candidate
	Preview            string         // response that consumers will get
	Danger             bool
	Reason             bool       // ask for a reason
	Tiers              []api.Tier // to choose from
	Hidden             map[string]string
	IDs                []string // of several records
	Back               string   // page to go back to
	Rejected           []api.RejectedLine
}

func confirmation(c confirm) view { return view{Template: "confirm", Title: c.Button, Data: c} }

// changedRecord returns to a record after an action, or shows why it was rejected.
func changedRecord(id string, report api.ImportReport, done string) view {
	if len(report.Rejected) > 0 {
		return view{Template: "confirm", Title: "Nothing was changed", Status: http.StatusUnprocessableEntity,
			Data: confirm{ID: id, Rejected: report.Rejected, Back: recordPath(id)}}
	}
	return view{Redirect: recordPath(id), Notice: done}
}

func recordPath(id string) string { return "/records/" + url.PathEscape(id) }
