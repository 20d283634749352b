package httpapi

import (
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
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
