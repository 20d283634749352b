package httpapi

import (
	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
)

func shown(a account.Account) api.Account {
	shown := api.Account{ID: a.ID, Tier: a.Tier, Suspended: a.SuspendedAt != nil, SuspendedAt: a.SuspendedAt, CreatedAt: a.CreatedAt, MergedInto: a.MergedInto}
	if shown.Suspended {
		shown.SuspendReason = &a.SuspendReason
	}
	return shown
}

func (a API) listAccounts(g *gin.Context) (web.Reply, error) {
	if _, err := params.Read(g.Request.URL.RawQuery); err != nil {
		return web.Reply{}, err
	}
	accounts, err := a.Accounts.Accounts(g.Request.Context())
	list := api.AccountList{Accounts: make([]api.ListedAccount, len(accounts))}
	for i, l := range accounts {
		list.Accounts[i] = api.ListedAccount{Account: shown(l.Account), UsedToday: l.UsedToday, Keys: l.ActiveKeys}
	}
	return web.Reply{JSON: list}, err
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

// change does the act that the body asks for and answers the account once the act is in force.
func (a API) change(g *gin.Context, body any, act func() (account.Change, error)) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	if err := decode(g, body); err != nil {
		return web.Reply{}, err
	}
	asked, err := act()
	if err != nil {
		return web.Reply{}, err
	}
	if err := account.Known(g.Param("id")); err != nil {
		return web.Reply{}, err
	}
	changed, err := a.Accounts.ChangeAccount(g.Request.Context(), actor, g.Param("id"), asked)
	if err != nil {
		return web.Reply{}, err
	}
	return web.Reply{JSON: shown(changed)}, a.inForce(g.Request.Context(), changed.ID)
}
