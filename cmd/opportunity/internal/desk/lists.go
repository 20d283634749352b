package desk

import (
	"maps"
	"net/url"
	"strconv"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
)

// listPage is the data of a page of a list.
type listPage[T any] struct {
	Items   []T
	Filters url.Values
	More    string // address of the next page; empty on the last
}

// newList returns a page of a list with the filters. next is the cursor of the next page, empty on
// the last.
func newList[T any](v *visit, filters url.Values, items []T, next string) listPage[T] {
	list := listPage[T]{Items: items, Filters: filters}
	if next != "" {
		query := maps.Clone(filters)
		query.Set("after", next)
		list.More = v.URL.Path + "?" + query.Encode()
	}
	return list
}

// chosen returns the parameters of the request with those names that are not empty.
func chosen(v *visit, names ...string) url.Values {
	found := url.Values{}
	for _, name := range names {
		if value := v.URL.Query().Get(name); value != "" {
			found.Set(name, value)
		}
	}
	return found
}

// limited returns the input of a list with the filters and at most limit entries.
func limited(filters url.Values, limit int) adminapi.Input {
	query := maps.Clone(filters)
	query.Set("limit", strconv.Itoa(limit))
	return adminapi.Input{Query: query}
}

func (d *Desk) records(v *visit) (view, error) {
	filters := chosen(v, "text", "visibility", "status", "category", "after")
	list, err := call(v, adminapi.ListListings, limited(filters, 100))
	return view{Template: "records", Title: "Records", Data: newList(v, filters, list.Listings, list.Next)}, err
}

func (d *Desk) keyRequests(v *visit) (view, error) {
	filters := chosen(v, "all", "after")
	list, err := call(v, adminapi.ListKeyRequests, limited(filters, 50))
	return view{Template: "requests", Title: "Key requests", Data: newList(v, filters, list.Requests, list.Next)}, err
}

func (d *Desk) accounts(v *visit) (view, error) {
	filters := chosen(v, "email", "after")
	list, err := call(v, adminapi.ListAccounts, limited(filters, 100))
	return view{Template: "accounts", Title: "Accounts", Data: newList(v, filters, list.Accounts, list.Next)}, err
}

func (d *Desk) account(v *visit) (view, error) {
	detail, err := call(v, adminapi.GetAccount, adminapi.Input{ID: v.PathValue("id")})
	return view{Template: "account", Title: "Account", Data: detail}, err
}

func accountPath(id string) string { return "/accounts/" + url.PathEscape(id) }
