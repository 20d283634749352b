package desk

import (
	"net/url"

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
	return listPage[T]{items, filters, more(v.URL.Path, filters, next)}
}

// more returns the address of the next page of a list, empty if next is: there is none.
func more(path string, filters url.Values, next string) string {
	if next == "" {
		return ""
	}
	query := url.Values{}
	for name := range filters {
		query.Set(name, filters.Get(name))
	}
	query.Set("after", next)
	return path + "?" + query.Encode()
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

// pairs returns names and values, one after the other, as the client takes them.
func pairs(values url.Values) (list []string) {
	for name := range values {
		list = append(list, name, values.Get(name))
	}
	return list
}

func (d *Desk) records(v *visit) (view, error) {
	filters := chosen(v, "text", "visibility", "status", "category", "after")
	list, _, err := v.client.ListingList(v.Context(), adminapi.Page{Limit: 100}, pairs(filters)...)
	return view{Template: "records", Title: "Records", Data: newList(v, filters, list.Listings, list.Next)}, err
}

func (d *Desk) keyRequests(v *visit) (view, error) {
	filters := chosen(v, "all", "after")
	list, _, err := v.client.KeyRequests(v.Context(), filters.Get("all") == "true",
		adminapi.Page{After: filters.Get("after"), Limit: 50})
	return view{Template: "requests", Title: "Key requests", Data: newList(v, filters, list.Requests, list.Next)}, err
}

func (d *Desk) accounts(v *visit) (view, error) {
	filters := chosen(v, "email", "after")
	list, _, err := v.client.AccountList(v.Context(), filters.Get("email"),
		adminapi.Page{After: filters.Get("after"), Limit: 100})
	return view{Template: "accounts", Title: "Accounts", Data: newList(v, filters, list.Accounts, list.Next)}, err
}

func (d *Desk) account(v *visit) (view, error) {
	detail, _, err := v.client.Account(v.Context(), v.PathValue("id"))
	return view{Template: "account", Title: "Account", Data: detail}, err
}

func accountPath(id string) string { return "/accounts/" + url.PathEscape(id) }
