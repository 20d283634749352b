package desk

import (
	"net/http"
	"time"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/pkg/api"
)

// queuePage is the data of the queue.
type queuePage struct {
	api.ReviewQueue
	listPage[api.QueueRecord]

	Opinions []api.OpinionRequest
	Mine     int // reviews of this person today
	LinksOff string
}

// Weekend reports whether the day is a Saturday or Sunday (UTC), which have no target.
func (p queuePage) Weekend() bool { return p.GeneratedAt.UTC().Weekday()%6 == time.Sunday }

// whys are the reasons to filter by.
var whys = []forms.Option{
	{Value: api.DueNeverReviewed, Label: "never reviewed"}, {Value: api.DueStale, Label: "stale"},
	{Value: api.DueReview, Label: "earlier review"}, {Value: api.DueClosed, Label: "closed"},
	{Value: api.DueLinkCheck, Label: "failing link"}, {Value: api.DueEdit, Label: "changed listing"},
}

func (d *Desk) queue(v *visit) (view, error) {
	filters := chosen(v, "scope", "why", "category", "text", "available", "skipped", "after")
	list, err := call(v, adminapi.GetQueue, adminapi.Input{Query: filters})
	if err != nil {
		return view{}, err
	}
	opinions, err := call(v, adminapi.ListOpinions, adminapi.Input{})
	if err != nil {
		return view{}, err
	}
	if by := list.Today.DoneBy; len(by) > 0 { // both figures count the reviews recorded today
		list.Today.Done = 0
		for _, n := range by {
			list.Today.Done += n
		}
	}
	page := queuePage{list, newList(v, filters, list.Records, list.Next), opinions.Requests,
		list.Today.DoneBy[v.Session.Name], d.LinksOff}
	return view{Template: "queue", Title: "Queue", Data: page}, nil
}

// next redirects to the first record of the queue without a lease of another person, and takes its
// lease.
func next(v *visit) (view, error) {
	list, err := call(v, adminapi.GetQueue, adminapi.Input{Query: adminapi.Query("available", "true")})
	if err != nil {
		return view{}, err
	}
	if to, err := firstFree(v, list.Records, func(r api.QueueRecord) string { return r.ID }); to != "" || err != nil {
		return view{Redirect: to}, err
	}
	return view{Redirect: "/queue", Notice: "The queue has nothing left for you today."}, nil
}

// firstFree returns the review page of the first record without a lease of another person, and
// takes its lease. It returns an empty path if there is none.
func firstFree[T any](v *visit, records []T, id func(T) string) (path string, err error) {
	const tried = 10 // more than the curators who submit at the same moment
	for _, r := range records[:min(len(records), tried)] {
		lease, err := takeLease(v, id(r), false)
		if err != nil {
			return "", err
		}
		if lease.Holder == v.Session.Name {
			return reviewPath(id(r), ""), nil
		}
	}
	return "", nil
}

func (d *Desk) skip(v *visit) (view, error) {
	id, days := v.PathValue("id"), map[string]int{"1": 1, "3": 3, "7": 7, "14": 14}[v.PostFormValue("days")]
	if days == 0 || v.PostFormValue("reason") == "" {
		return view{Template: "error", Title: "Nothing was skipped", Status: http.StatusUnprocessableEntity,
			Data: "Go back, enter a reason and choose when the record comes back."}, nil
	}
	skip := api.SkipRequest{Reason: v.PostFormValue("reason"), Until: api.Timestamp{Time: v.now.UTC().AddDate(0, 0, days)}}
	if _, err := call(v, adminapi.SkipRecord, adminapi.Input{ID: id, Body: skip}); err != nil {
		return view{}, err
	}
	return goOn(v, id+" comes back in "+v.PostFormValue("days")+" days.", next)
}
