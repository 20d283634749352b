package desk

import (
	"net/url"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// candidatesPage is the data of the candidates.
type candidatesPage struct {
	Candidates []api.Candidate
	Filters    url.Values
	More       string
}

// candidate returns the checklist of a private record, nil if it is not private.
func (d *Desk) candidate(v *visit, id string) (*api.Candidate, error) {
	list, _, err := v.client.Candidates(v.Context(), "text", id, "limit", "1000")
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

// missing returns the empty fields of a candidate. After a review, its facts count instead of the listing's own.
func missing(c api.Candidate) []string {
	return slices.DeleteFunc(c.Missing, func(field string) bool { return c.Reviewed && strings.HasPrefix(field, "facts.") })
}

// candidates lists the private records: what each lacks and what it may duplicate.
func (d *Desk) candidates(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "text", "host", "after")
	list, _, err := v.client.Candidates(v.Context(), append(pairs(filters), "limit", "50")...)
	if err != nil {
		return view{}, err
	}
	for i, c := range list.Candidates {
		list.Candidates[i].Missing = missing(c)
	}
	page := candidatesPage{Candidates: list.Candidates, Filters: filters}
	page.More = more("/candidates", filters, "after", list.Next)
	return view{Template: "candidates", Title: "Candidates", Data: page}, nil
}
