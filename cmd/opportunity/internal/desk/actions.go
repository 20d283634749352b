package desk

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/desk/forms"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
)

// action is something that a person does to a record, a key request, an account or a key after the
// desk showed what it does.
type action struct {
	confirm

	prepare func(v *visit, c *confirm) error // completes the page; nil if it is complete
	do      func(v *visit, id, reason string) (view, error)
}

// confirm is a page that shows the consequences of an action before it happens.
type confirm struct {
	ID, Action, Button string
	Text               string
	Candidate          *api.Candidate // its checklist; nil if it is none
	Preview            string         // response that consumers will get
	Danger             bool
	Reason             bool       // ask for a reason
	Given              string     // reason that is preset
	Tiers              []api.Tier // to choose from
	Hidden             url.Values // further fields of the form
	Back               string     // page to go back to
	Rejected           []api.RejectedLine
}

// actions has each action by the first and the last part of its path.
func actions() map[string]action {
	return map[string]action{
		"records/publish": {confirm{Button: "Publish record"}, preparePublish, publish},
		"records/withdraw": {confirm{Button: "Withdraw record", Danger: true, Reason: true,
			Text: "Consumers get this response for the record, as if it had never existed. " +
				"Its history stays, and you can publish it again."}, prepareWithdraw, withdraw},
		"records/propose-withdrawal": {confirm{Button: "Propose withdrawal", Reason: true,
			Text: "A publisher decides. Until then, consumers see the record as before."},
			nil, send(adminapi.ProposeWithdrawal, recordPath, "A publisher decides about the withdrawal.")},
		"records/decline-withdrawal": {confirm{Button: "Keep record public", Reason: true,
			Text: "The proposal to withdraw the record ends. The log keeps your reason."},
			nil, send(adminapi.DeclineWithdrawal, func(string) string { return "/withdrawals" }, "The record stays public.")},
		"requests/approve": {confirm{Button: "Approve request",
			Text: "The person gets a mail and can collect the key. The key has the account's tier."},
			nil, decide(adminapi.ApproveKeyRequest)},
		"requests/decline": {confirm{Button: "Decline request", Danger: true, Reason: true,
			Text: "The person gets a mail that quotes your reason. The decision is final; they can send another request."},
			nil, decide(adminapi.DeclineKeyRequest)},
		"accounts/suspend": {confirm{Button: "Suspend account", Danger: true, Reason: true,
			Text: "The next request with any of its keys is rejected with 403. The owner gets a mail that quotes your reason."},
			nil, send(adminapi.SuspendAccount, accountPath, "The account is suspended.")},
		"accounts/resume": {confirm{Button: "Resume account", Reason: true,
			Text: "Its keys work again from the next request on. The owner gets a mail. The audit log keeps your reason."},
			nil, send(adminapi.ResumeAccount, accountPath, "The account works again.")},
		"accounts/grant": {confirm{Button: "Grant tier", Tiers: verbs.Tiers(),
			Text: "The tier applies from the next request on. Requests charged today still count."}, nil, grant},
		"keys/revoke": {confirm{Button: "Revoke key", Danger: true,
			Text: "The next request with this key is rejected with 401. This cannot be undone. The owner gets a mail."},
			prepareRevoke, revoke},
	}
}

func (a action) ask(_ *Desk, v *visit) (view, error) {
	c := a.confirm
	c.ID, c.Action, c.Back = v.PathValue("id"), v.URL.Path, path.Dir(v.URL.EscapedPath())
	if strings.HasPrefix(c.Back, "/requests/") { // which have no page
		c.Back = "/requests"
	}
	if a.prepare != nil {
		if err := a.prepare(v, &c); err != nil {
			return view{}, err
		}
	}
	return view{Template: "confirm", Title: c.Button, Data: c}, nil
}

func (a action) act(d *Desk, v *visit) (view, error) {
	reason := strings.TrimSpace(v.PostFormValue("reason"))
	if a.Reason && reason == "" {
		response, err := a.ask(d, v)
		return response.Wrong("reason", "Enter a reason"), err
	}
	return a.do(v, v.PathValue("id"), reason)
}

func notFound() view {
	return view{Template: "error", Title: "Page not found", Status: http.StatusNotFound, Data: "This page does not exist."}
}

func askPublish(v *visit, ids []string, c *confirm) error {
	report, err := call(v, adminapi.PublishListings,
		adminapi.Input{Query: adminapi.Query("dryRun", "true"), Body: map[string][]string{"ids": ids}})
	c.Rejected = report.Rejected
	c.Text = fmt.Sprintf("%s would become public, %d of them never reviewed. Consumers see those as unverified "+
		"until a curator reviews their facts. Your name and the time are recorded as the editorial review.",
		forms.Count(report.Published, "listing", "listings"), report.NeverReviewed)
	return err
}

func preparePublish(v *visit, c *confirm) (err error) {
	c.Hidden = chosen(v, "lane")
	if err := askPublish(v, []string{c.ID}, c); err != nil {
		return err
	}
	c.Candidate, err = candidate(v, c.ID)
	return err
}

// publishAll publishes records and goes on to a page, or shows why they were rejected.
func publishAll(v *visit, ids []string, to string) (view, error) {
	report, err := call(v, adminapi.PublishListings, adminapi.Input{Body: map[string][]string{"ids": ids}})
	done := "Published " + forms.Count(report.Published, "record", "records") + "."
	return changed(strings.Join(ids, ", "), to, report, done), err
}

func publish(v *visit, id, _ string) (view, error) {
	response, err := publishAll(v, []string{id}, recordPath(id))
	if err == nil && v.PostFormValue("lane") != "" && response.Redirect != "" {
		return goOn(v, response.Notice, nextCandidate)
	}
	return response, err
}

// changed goes on to a page after records were changed, or shows why nothing was.
func changed(ids, to string, report api.ImportReport, done string) view {
	if len(report.Rejected) > 0 {
		return view{Template: "confirm", Title: "Nothing was changed", Status: http.StatusUnprocessableEntity,
			Data: confirm{ID: ids, Rejected: report.Rejected, Back: to}}
	}
	return view{Redirect: to, Notice: done}
}

// prepareWithdraw presets the reason of the proposal that led to the page.
func prepareWithdraw(v *visit, c *confirm) error {
	c.Given = v.FormValue("reason")
	c.Preview = "GET /api/v1/opportunities/" + c.ID + "\nHTTP/1.1 404 Not Found\n\n" +
		`{"error":{"code":"not_found","message":"There is no such record, or it is not part of your plan."}}`
	return nil
}

func withdraw(v *visit, id, reason string) (view, error) {
	report, err := call(v, adminapi.WithdrawListings,
		adminapi.Input{Body: map[string]any{"ids": []string{id}, "reason": reason}})
	return changed(id, recordPath(id), report, "Withdrew "+id+"."), err
}

func (d *Desk) withdrawals(v *visit) (view, error) {
	list, err := call(v, adminapi.ListWithdrawals, adminapi.Input{})
	return view{Template: "withdrawals", Title: "Withdrawals", Data: list.Withdrawals}, err
}

// send returns an action that sends the reason to a route, and then goes on to a page.
func send(
	route adminapi.Route[any], to func(id string) string, done string,
) func(v *visit, id, reason string) (view, error) {
	return func(v *visit, id, reason string) (view, error) {
		_, err := call(v, route, adminapi.Input{ID: id, Body: map[string]string{"reason": reason}})
		return view{Redirect: to(id), Notice: done}, err
	}
}

// decide returns an action that decides about a key request. An earlier decision stays.
func decide(route adminapi.Route[api.KeyRequest]) func(*visit, string, string) (view, error) {
	return func(v *visit, id, reason string) (view, error) {
		in := adminapi.Input{ID: id}
		if reason != "" {
			in.Body = map[string]string{"reason": reason}
		}
		request, err := call(v, route, in)
		return view{Redirect: "/requests", Notice: "Request " + request.ID + " is " + request.State + "."}, err
	}
}

func grant(v *visit, id, _ string) (view, error) {
	tier := v.PostFormValue("tier")
	_, err := call(v, adminapi.GrantTier, adminapi.Input{ID: id, Body: map[string]string{"tier": tier}})
	return view{Redirect: accountPath(id), Notice: "The account has the tier " + tier + "."}, err
}

func prepareRevoke(v *visit, c *confirm) error {
	c.Hidden = chosen(v, "account")
	c.Back = accountPath(v.FormValue("account"))
	return nil
}

func revoke(v *visit, id, _ string) (view, error) {
	_, err := call(v, adminapi.RevokeKey, adminapi.Input{ID: id})
	return view{Redirect: accountPath(v.PostFormValue("account")), Notice: "The key is revoked."}, err
}
