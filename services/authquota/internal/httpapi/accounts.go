package httpapi

import (
	"encoding/json"
	"math"
	"regexp"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
)

func (a API) shown(of account.Account) api.Account {
	now := a.Now()
	shown := api.Account{
		ID: of.ID, Status: string(of.State()), Tier: of.TierAt(now), Granted: of.Granted, Paid: of.PaidAt(now), ClosedAt: of.ClosedAt,
		Suspended: of.SuspendedAt != nil, SuspendedAt: of.SuspendedAt, CreatedAt: of.CreatedAt, MergedInto: of.MergedInto,
	}
	if shown.Suspended {
		shown.SuspendReason = &of.SuspendReason
	}
	return shown
}

func (a API) listAccounts(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "email", "after", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	page, err := Page(query, account.CheckID)
	if err == nil && len(query["email"]) > MaxFragment {
		err = problem.Invalid("email", "is longer than an address")
	}
	if err != nil {
		return web.Reply{}, err
	}
	accounts, more, err := a.People.Accounts(g.Request.Context(), people.AccountSearch{Email: query["email"], Page: page})
	list := api.AccountList{Accounts: make([]api.ListedAccount, len(accounts))}
	for i, l := range accounts {
		list.Accounts[i] = api.ListedAccount{Account: a.shown(l.Account), Email: l.Email, UsedToday: l.UsedToday, Keys: l.ActiveKeys}
		if more {
			list.Next = l.ID
		}
	}
	return web.Reply{JSON: list}, err
}

func (a API) showAccount(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	if err := account.CheckID(g.Param("id")); err != nil {
		return web.Reply{}, err
	}
	seen, err := a.People.Account(g.Request.Context(), g.Param("id"))
	if err != nil {
		return web.Reply{}, err
	}
	detail := api.AccountDetail{
		Account: a.shown(seen.Account), UsedToday: seen.UsedToday, PerDay: a.Tiers[seen.TierAt(a.Now())].PerDay,
		Keys: make([]api.ListedKey, len(seen.Keys)), Requests: make([]api.KeyRequest, len(seen.Requests)), Audit: entries(seen.Audit),
	}
	if p := seen.Person; p != nil {
		detail.Person = &api.AccountPerson{
			Email: p.Email, AuthenticatorConfirmed: p.AuthenticatorConfirmed, RecoveryCodesLeft: p.RecoveryCodesLeft, ResetAt: p.ResetAt,
			Passkeys: seen.Passkeys, Sessions: seen.Sessions, CreatedAt: p.CreatedAt, ClosedAt: seen.ClosedAt,
		}
		if p.Terms != nil {
			detail.Person.Terms = &api.AcceptedTerms{Version: p.Terms.Version, AcceptedAt: p.Terms.AcceptedAt}
		}
	}
	for i, k := range seen.Keys {
		detail.Keys[i] = listedKey(k, a.Now())
	}
	for i, r := range seen.Requests {
		detail.Requests[i] = listedRequest(r)
	}
	return web.Reply{JSON: detail}, nil
}

func (a API) suspend(g *gin.Context) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.change(g, &body, func() (account.Change, error) { return account.Suspend(body.Reason) })
}

func (a API) resume(g *gin.Context) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.change(g, &body, func() (account.Change, error) { return account.Resume(body.Reason) })
}

func (a API) grant(g *gin.Context) (web.Reply, error) {
	var body struct {
		Tier api.Tier `json:"tier"`
	}
	return a.change(g, &body, func() (account.Change, error) { return account.Grant(body.Tier) })
}

// change applies the requested change and returns the account once the change is in effect.
func (a API) change(g *gin.Context, body any, act func() (account.Change, error)) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	if err := Decode(g, body); err != nil {
		return web.Reply{}, err
	}
	requested, err := act()
	if err != nil {
		return web.Reply{}, err
	}
	if err := account.CheckID(g.Param("id")); err != nil {
		return web.Reply{}, err
	}
	changed, err := a.People.ChangeAccount(g.Request.Context(), actor, g.Param("id"), requested)
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: a.shown(changed)}, nil
}

func entries(logged []people.AuditEntry) []api.AuditEntry {
	out := make([]api.AuditEntry, len(logged))
	for i, e := range logged {
		out[i] = api.AuditEntry{ID: e.ID, At: e.At, Actor: e.Actor, Action: e.Action, Subject: e.Subject, Detail: json.RawMessage(e.Detail)}
	}
	return out
}

// auditPage is the default length of a page of the audit log.
const auditPage = 50

// actionLike matches a prefix of an action.
var actionLike = regexp.MustCompile(`^[a-z_]{1,40}(\.[a-z_]{0,40})?$`)

// listAudit returns entries of the audit log. Reading the log is not recorded.
func (a API) listAudit(g *gin.Context) (web.Reply, error) {
	query, err := params.Read(g.Request.URL.RawQuery, "account", "action", "actor", "since", "until", "before", "limit")
	if err != nil {
		return web.Reply{}, err
	}
	search := people.AuditSearch{Account: query["account"], Action: query["action"], Actor: query["actor"]}
	before := 0
	if search.Limit, err = query.Integer("limit", 1, MaxPage, auditPage); err == nil {
		before, err = query.Integer("before", 1, math.MaxInt, 0)
	}
	search.Before = int64(before)
	for name, at := range map[string]*time.Time{"since": &search.Since, "until": &search.Until} {
		if err == nil {
			*at, err = query.Time(name)
		}
	}
	switch {
	case err != nil:
	case search.Account != "" && account.CheckID(search.Account) != nil:
		err = problem.Invalid("account", "must be the id of an account")
	case search.Action != "" && !actionLike.MatchString(search.Action):
		err = problem.Invalid("action", "must be the prefix of an action, such as key. or person.sign_in")
	case len(search.Actor) > MaxFragment:
		err = problem.Invalid("actor", "is longer than a name")
	}
	if err != nil {
		return web.Reply{}, err
	}
	logged, more, err := a.People.Audit(g.Request.Context(), search)
	list := api.AuditList{Entries: entries(logged)}
	if more {
		list.Next = logged[len(logged)-1].ID
	}
	return web.Reply{JSON: list}, err
}

// announce creates an announcement or, if it exists, returns its progress. With dryRun it creates
// nothing.
func (a API) announce(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	var body api.AnnouncementRequest
	if err := Decode(g, &body); err != nil {
		return web.Reply{}, err
	}
	want, err := notices.Announcement{ID: body.ID, Kind: notices.AnnouncementKind(body.Kind), Subject: body.Subject, Text: body.Text}.Check()
	if err != nil {
		return web.Reply{}, err
	}
	letter, err := a.Notices.Preview(want)
	if err != nil {
		return web.Reply{}, err
	}
	var p notices.Progress
	if body.DryRun {
		p, err = a.Notices.Progress(g.Request.Context(), want)
	} else {
		p, err = a.Notices.Announce(g.Request.Context(), actor, want)
	}
	return web.Reply{JSON: api.Announcement{
		ID: want.ID, Kind: string(want.Kind), Subject: letter.Subject, Text: letter.Text,
		Recipients: p.Recipients, Posted: p.Posted, CreatedAt: p.CreatedAt, FinishedAt: p.FinishedAt,
	}}, err
}
