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
