package desk

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// shownCandidates is the number of candidates on a page. Publishing sends their ids in a query.
const shownCandidates = 50

// candidatesPage is the data of the candidates.
type candidatesPage struct {
	listPage[api.Candidate]

	ChooseAll string // address of the page with every candidate chosen
	All       bool   // every candidate is chosen
	Publish   bool   // whether the role can publish
}

// candidate returns the checklist of a private record, nil if it is not private.
func candidate(v *visit, id string) (*api.Candidate, error) {
	list, err := call(v, adminapi.ListCandidates, adminapi.Input{Query: adminapi.Query("text", id, "limit", "1000")})
	if err != nil {
		return nil, err
	}
	for _, c := range list.Candidates {
		if c.ID == id {
			c.Missing = missing(c)
			return &c, nil
		}
	}
	return nil, nil //nolint:nilnil // no candidate
}

// missing returns the empty fields of a candidate. After a review, its facts count instead of the
// listing's own.
func missing(c api.Candidate) []string {
	return slices.DeleteFunc(c.Missing,
		func(field string) bool { return c.Reviewed && strings.HasPrefix(field, "facts.") })
}

// candidates lists the private records: what each lacks and what it may duplicate.
func (d *Desk) candidates(v *visit) (view, error) {
	filters, limit := chosen(v, "text", "host", "after"), shownCandidates
	reviewed, all := v.FormValue("reviewed") != "", v.FormValue("all") != ""
	if reviewed {
		limit = 1000
	}
	list, err := call(v, adminapi.ListCandidates, limited(filters, limit))
	if err != nil {
		return view{}, err
	}
	if reviewed {
		filters.Set("reviewed", "on")
		list.Candidates = slices.DeleteFunc(list.Candidates, func(c api.Candidate) bool { return !c.Reviewed })
		if len(list.Candidates) > shownCandidates {
			list.Candidates = list.Candidates[:shownCandidates]
			list.Next = list.Candidates[shownCandidates-1].ID
		}
	}
	for i, c := range list.Candidates {
		list.Candidates[i].Missing = missing(c)
	}
	choose := maps.Clone(filters)
	choose.Set("all", "on")
	page := candidatesPage{newList(v, filters, list.Candidates, list.Next), "/candidates?" + choose.Encode(), all,
		publishes(v)}
	return view{Template: "candidates", Title: "Candidates", Data: page}, nil
}

// nextCandidate redirects to the candidate without a review that has most sources, and takes its
// lease. It leaves out those that another person has in work or this person just skipped.
func nextCandidate(v *visit) (view, error) {
	list, err := call(v, adminapi.ListCandidates, adminapi.Input{Query: adminapi.Query("limit", "1000")})
	if err != nil {
		return view{}, err
	}
	waiting := slices.DeleteFunc(list.Candidates, func(c api.Candidate) bool {
		return c.Reviewed || c.ID == v.PathValue("id") || c.Lease != nil && c.Lease.Holder != v.Session.Name
	})
	slices.SortStableFunc(waiting, func(a, b api.Candidate) int {
		return cmp.Or(cmp.Compare(b.Sources, a.Sources), cmp.Compare(len(a.Missing), len(b.Missing)))
	})
	if to, err := firstFree(v, waiting, func(c api.Candidate) string { return c.ID }); to != "" || err != nil {
		return view{Redirect: to}, err
	}
	return view{Redirect: "/candidates", Notice: "There is no other candidate without a review."}, nil
}

func (d *Desk) askPublishSeveral(v *visit) (view, error) {
	ids := v.URL.Query()["id"]
	if len(ids) == 0 {
		return view{Redirect: "/candidates", Notice: "Choose the candidates to publish first."}, nil
	}
	c := confirm{ID: strings.Join(ids, ", "), Action: "/candidates/publish", Button: "Publish records",
		Hidden: url.Values{"id": ids}, Back: "/candidates"}
	err := askPublish(v, ids, &c)
	return view{Template: "confirm", Title: c.Button, Data: c}, err
}

func (d *Desk) publishSeveral(v *visit) (view, error) {
	return publishAll(v, v.PostForm["id"], "/candidates")
}
