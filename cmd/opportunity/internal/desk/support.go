package desk

import (
	"net/http"
	"net/url"
	"strings"

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

// askDecision shows what a decision about a key request does.
func (d *Desk) askDecision(v *visit) (view, error) {
	id := v.PathValue("id")
	c := confirm{ID: id, Action: "/requests/" + url.PathEscape(id) + "/" + v.PathValue("verb"), Back: "/requests"}
	switch v.PathValue("verb") {
	case "approve":
		c.Button, c.Text = "Approve request", []string{"The person gets a mail and can collect the key. The key has the account's tier."}
	case "decline":
		c.Button, c.Danger, c.Reason = "Decline request", true, true
		c.Text = []string{"The person gets a mail that quotes your reason. The decision is final; they can send another request."}
	default:
		return notFound(), nil
	}
	return confirmation(c), nil
}

func notFound() view {
	return view{Template: "error", Title: "Page not found", Status: http.StatusNotFound, Data: "This page does not exist."}
}

func (d *Desk) approve(v *visit) (view, error) {
	request, _, err := v.client.ApproveKey(v.Context(), v.PathValue("id"))
	return view{Redirect: "/requests", Notice: "Request " + request.ID + " is " + request.State + "."}, err
}

func (d *Desk) decline(v *visit) (view, error) {
	reason := strings.TrimSpace(v.PostFormValue("reason"))
	if reason == "" {
		v.SetPathValue("verb", "decline")
		return missingReason(d.askDecision(v))
	}
	request, _, err := v.client.DeclineKey(v.Context(), v.PathValue("id"), reason)
	return view{Redirect: "/requests", Notice: "Request " + request.ID + " is " + request.State + "."}, err
}

// missingReason shows a confirmation again because its reason is missing.
func missingReason(response view, err error) (view, error) {
	response = response.Wrong("reason", "Enter a reason")
	return response, err
}

// accountsPage is the data of the list of accounts.
type accountsPage struct {
	Accounts []api.ListedAccount
	Filters  url.Values
	More     string
}

func (d *Desk) accounts(v *visit) (view, error) {
	filters := chosen(v.URL.Query(), "email", "after")
	list, _, err := v.client.AccountList(v.Context(), filters.Get("email"), adminapi.Page{After: filters.Get("after"), Limit: 100})
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

// askAccount shows what an action on an account does.
func (d *Desk) askAccount(v *visit) (view, error) {
	id := v.PathValue("id")
	c := confirm{ID: id, Action: accountPath(id) + "/" + v.PathValue("verb"), Back: accountPath(id)}
	switch v.PathValue("verb") {
	case "suspend":
		c.Button, c.Danger, c.Reason = "Suspend account", true, true
		c.Text = []string{"The next request with any of its keys is rejected with 403. The owner gets a mail that quotes your reason."}
	case "resume":
		c.Button, c.Reason = "Resume account", true
		c.Text = []string{"Its keys work again from the next request on. The owner gets a mail. The audit log keeps your reason."}
	case "grant":
		c.Button = "Grant tier"
		c.Text = []string{"The tier applies from the next request on. Requests charged today still count."}
		for _, t := range api.Tiers {
			c.Tiers = append(c.Tiers, t.Tier)
		}
	default:
		return notFound(), nil
	}
	return confirmation(c), nil
}

// suspend suspends or resumes an account.
func (d *Desk) suspend(v *visit) (view, error) {
	id, resume := v.PathValue("id"), strings.HasSuffix(v.URL.Path, "/resume")
	verb, done := "suspend", "The account is suspended."
	if resume {
		verb, done = "resume", "The account works again."
	}
	reason := strings.TrimSpace(v.PostFormValue("reason"))
	if reason == "" {
		v.SetPathValue("verb", verb)
		return missingReason(d.askAccount(v))
	}
	_, err := v.client.Suspend(v.Context(), id, reason, resume)
	return view{Redirect: accountPath(id), Notice: done}, err
}

func (d *Desk) grant(v *visit) (view, error) {
	id, tier := v.PathValue("id"), v.PostFormValue("tier")
	_, err := v.client.Grant(v.Context(), id, api.Tier(tier))
	return view{Redirect: accountPath(id), Notice: "The account has the tier " + tier + "."}, err
}

// askRevoke shows what revoking a key does.
func (d *Desk) askRevoke(v *visit) (view, error) {
	id, account := v.PathValue("id"), v.FormValue("account")
	return confirmation(confirm{
		ID: id, Action: "/keys/" + url.PathEscape(id) + "/revoke", Button: "Revoke key", Danger: true, Back: accountPath(account),
		Text:   []string{"The next request with this key is rejected with 401. This cannot be undone. The owner gets a mail."},
		Hidden: map[string]string{"account": account},
	}), nil
}

func (d *Desk) revoke(v *visit) (view, error) {
	_, err := v.client.RevokeKey(v.Context(), v.PathValue("id"), false)
	return view{Redirect: accountPath(v.PostFormValue("account")), Notice: "The key is revoked."}, err
}
