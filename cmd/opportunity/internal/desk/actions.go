package desk

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
)

// action is something that a person does to a record, a key request, an account or a key after the
// desk showed what it does.
type action struct {
	confirm

	prepare func(d *Desk, v *visit, c *confirm) error // completes the page; nil if it is complete
	do      func(d *Desk, v *visit, id, reason string) (view, error)
}

// confirm is a page that shows the consequences of an action before it happens.
type confirm struct {
	ID, Action, Button string
	Text               []string
	Candidate          *api.Candidate // its checklist; nil if it is none
	Lane               bool           // go on with the next candidate
	Preview            string         // response that consumers will get
	Danger             bool
	Reason             bool       // ask for a reason
	Given              string     // reason that is preset
	Tiers              []api.Tier // to choose from
	Hidden             map[string]string
	IDs                []string // of several records
	Back               string   // page to go back to
	Rejected           []api.RejectedLine
}

// actions has each action by the first and the last part of its path.
func actions() map[string]action {
	return map[string]action{
		"records/publish": {confirm{Button: "Publish record"}, (*Desk).preparePublish, (*Desk).publish},
		"records/withdraw": {confirm{Button: "Withdraw record", Danger: true, Reason: true, Text: []string{
			"Consumers get this response for the record, as if it had never existed. " +
				"Its history stays, and you can publish it again.",
		}}, (*Desk).prepareWithdraw, (*Desk).withdraw},
		"records/propose-withdrawal": {confirm{Button: "Propose withdrawal", Reason: true, Text: []string{
			"A publisher decides. Until then, consumers see the record as before.",
		}}, nil, (*Desk).decideWithdrawal},
		"records/decline-withdrawal": {confirm{Button: "Keep record public", Reason: true, Text: []string{
			"The proposal to withdraw the record ends. The log keeps your reason.",
		}}, nil, (*Desk).decideWithdrawal},
		"requests/approve": {confirm{Button: "Approve request", Text: []string{
			"The person gets a mail and can collect the key. The key has the account's tier.",
		}}, nil, (*Desk).decide},
		"requests/decline": {confirm{Button: "Decline request", Danger: true, Reason: true, Text: []string{
			"The person gets a mail that quotes your reason. The decision is final; they can send another request.",
		}}, nil, (*Desk).decide},
		"accounts/suspend": {confirm{Button: "Suspend account", Danger: true, Reason: true, Text: []string{
			"The next request with any of its keys is rejected with 403. The owner gets a mail that quotes your reason.",
		}}, nil, (*Desk).suspend},
		"accounts/resume": {confirm{Button: "Resume account", Reason: true, Text: []string{
			"Its keys work again from the next request on. The owner gets a mail. The audit log keeps your reason.",
		}}, nil, (*Desk).suspend},
		"accounts/grant": {confirm{Button: "Grant tier", Tiers: verbs.Tiers(), Text: []string{
			"The tier applies from the next request on. Requests charged today still count.",
		}}, nil, (*Desk).grant},
		"keys/revoke": {confirm{Button: "Revoke key", Danger: true, Text: []string{
			"The next request with this key is rejected with 401. This cannot be undone. The owner gets a mail.",
		}}, (*Desk).prepareRevoke, (*Desk).revoke},
	}
}

// ask shows what an action does.
func (d *Desk) ask(v *visit) (view, error) {
	kind, verb := actionOf(v)
	a := actions()[kind+"/"+verb]
	c := a.confirm
	c.ID, c.Action = v.PathValue("id"), v.URL.Path
	if c.Back = "/" + kind; kind != "requests" {
		c.Back += "/" + url.PathEscape(c.ID)
	}
	if a.prepare != nil {
		if err := a.prepare(d, v, &c); err != nil {
			return view{}, err
		}
	}
	return view{Template: "confirm", Title: c.Button, Data: c}, nil
}

// act does what the person confirmed.
func (d *Desk) act(v *visit) (view, error) {
	kind, verb := actionOf(v)
	a, reason := actions()[kind+"/"+verb], strings.TrimSpace(v.PostFormValue("reason"))
	if a.Reason && reason == "" {
		response, err := d.ask(v)
		return response.Wrong("reason", "Enter a reason"), err
	}
	return a.do(d, v, v.PathValue("id"), reason)
}

// actionOf returns the first and the last part of the path.
func actionOf(v *visit) (kind, verb string) {
	kind, _, _ = strings.Cut(strings.TrimPrefix(v.URL.Path, "/"), "/")
	return kind, path.Base(v.URL.Path)
}

func notFound() view {
	return view{Template: "error", Title: "Page not found", Status: http.StatusNotFound, Data: "This page does not exist."}
}

func (d *Desk) preparePublish(v *visit, c *confirm) error {
	report, _, err := v.client.Publish(v.Context(), []string{c.ID}, false, true)
	if err != nil {
		return err
	}
	reviewed := "Its facts were reviewed before."
	if report.NeverReviewed > 0 {
		reviewed = "It was never reviewed: consumers see it as unverified until a curator reviews its facts."
	}
	c.Text = []string{"Consumers see the record from now on. " +
		"Your name and the time are recorded as its editorial review.", reviewed}
	c.Lane, c.Rejected = v.FormValue("lane") != "", report.Rejected
	c.Candidate, err = d.candidate(v, c.ID)
	return err
}

func (d *Desk) publish(v *visit, id, _ string) (view, error) {
	report, _, err := v.client.Publish(v.Context(), []string{id}, false, false)
	if err != nil {
		return view{}, err
	}
	response := changedRecord(id, report, "Published "+id+".")
	if v.PostFormValue("lane") != "" && response.Redirect != "" {
		v.say(response.Notice)
		return d.nextCandidate(v)
	}
	return response, nil
}

// prepareWithdraw presets the reason of the proposal that led to the page.
func (d *Desk) prepareWithdraw(v *visit, c *confirm) error {
	c.Given = v.FormValue("reason")
	c.Preview = "GET /api/v1/opportunities/" + c.ID + "\nHTTP/1.1 404 Not Found\n\n" +
		`{"error":{"code":"not_found","message":"There is no such record, or it is not part of your plan."}}`
	return nil
}

func (d *Desk) withdraw(v *visit, id, reason string) (view, error) {
	report, _, err := v.client.Withdraw(v.Context(), []string{id}, reason)
	if err != nil {
		return view{}, err
	}
	return changedRecord(id, report, "Withdrew "+id+"."), nil
}

// decideWithdrawal proposes to withdraw a record, or declines the proposal.
func (d *Desk) decideWithdrawal(v *visit, id, reason string) (view, error) {
	_, verb := actionOf(v)
	_, _, err := adminapi.Send[any](v.Context(), v.client, http.MethodPost, sheetPath(id)+"/"+verb,
		api.WithdrawalRequest{Reason: reason})
	if verb == "propose-withdrawal" {
		return view{Redirect: recordPath(id), Notice: "A publisher decides about the withdrawal."}, err
	}
	return view{Redirect: "/withdrawals", Notice: id + " stays public."}, err
}

// withdrawals lists the proposals to withdraw records.
func (d *Desk) withdrawals(v *visit) (view, error) {
	list, _, err := adminapi.Get[api.WithdrawalList](v.Context(), v.client, "/reviews/withdrawals")
	return view{Template: "withdrawals", Title: "Withdrawals", Data: list.Withdrawals}, err
}

func (d *Desk) decide(v *visit, id, reason string) (view, error) {
	if _, verb := actionOf(v); verb == "decline" {
		request, _, err := v.client.DeclineKey(v.Context(), id, reason)
		return decided(request), err
	}
	request, _, err := v.client.ApproveKey(v.Context(), id)
	return decided(request), err
}

func decided(request api.KeyRequest) view {
	return view{Redirect: "/requests", Notice: "Request " + request.ID + " is " + request.State + "."}
}

// suspend suspends or resumes an account.
func (d *Desk) suspend(v *visit, id, reason string) (view, error) {
	_, verb := actionOf(v)
	resume, done := verb == "resume", "The account is suspended."
	if resume {
		done = "The account works again."
	}
	_, err := v.client.Suspend(v.Context(), id, reason, resume)
	return view{Redirect: accountPath(id), Notice: done}, err
}

func (d *Desk) grant(v *visit, id, _ string) (view, error) {
	tier := v.PostFormValue("tier")
	_, err := v.client.Grant(v.Context(), id, api.Tier(tier))
	return view{Redirect: accountPath(id), Notice: "The account has the tier " + tier + "."}, err
}

func (d *Desk) prepareRevoke(v *visit, c *confirm) error {
	c.Hidden = map[string]string{"account": v.FormValue("account")}
	c.Back = accountPath(v.FormValue("account"))
	return nil
}

func (d *Desk) revoke(v *visit, id, _ string) (view, error) {
	_, err := v.client.RevokeKey(v.Context(), id, false)
	return view{Redirect: accountPath(v.PostFormValue("account")), Notice: "The key is revoked."}, err
}
