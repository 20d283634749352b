package desk

import (
	"net/url"

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
			return &c, nil
		}
	}
	return nil, nil //nolint:nilnil // no candidate
}

// candidates lists the private records: what each lacks and what it may duplicate.
func (d *Desk) candidates(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "text", "host", "after")
	list, _, err := v.client.Candidates(v.Context(), append(pairs(filters), "limit", "50")...)
	if err != nil {
		return view{}, err
	}
	page := candidatesPage{Candidates: list.Candidates, Filters: filters}
	if list.Next != "" {
		page.More = more("/candidates", filters, "after", list.Next)
	}
	return view{Template: "candidates", Title: "Candidates", Data: page}, nil
}
