package desk

import (
	"net/url"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/pkg/api"
)

// requestsPage is the data of the key requests.
type requestsPage struct {
	Requests []api.KeyRequest
	All      bool
	More     string
}

func (d *Desk) keyRequests(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "all", "after")
	page := requestsPage{All: filters.Get("all") == "true"}
	list, _, err := v.client.KeyRequests(v.Context(), page.All, adminapi.Page{After: filters.Get("after"), Limit: 50})
	if err != nil {
		return view{}, err
	}
	page.Requests = list.Requests
	page.More = more("/requests", filters, "after", list.Next)
	return view{Template: "requests", Title: "Key requests", Data: page}, nil
}

// accountsPage is the data of the list of accounts.
type accountsPage struct {
	Accounts []api.ListedAccount
	Filters  url.Values
	More     string
}

func (d *Desk) accounts(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "email", "after")
	list, _, err := v.client.AccountList(v.Context(), filters.Get("email"),
		adminapi.Page{After: filters.Get("after"), Limit: 100})
	if err != nil {
		return view{}, err
	}
	page := accountsPage{Accounts: list.Accounts, Filters: filters}
	page.More = more("/accounts", filters, "after", list.Next)
	return view{Template: "accounts", Title: "Accounts", Data: page}, nil
}

func (d *Desk) account(v *visit) (view, error) {
	detail, _, err := v.client.Account(v.Context(), v.PathValue("id"))
	return view{Template: "account", Title: "Account", Data: detail}, err
}

func accountPath(id string) string { return "/accounts/" + url.PathEscape(id) }
