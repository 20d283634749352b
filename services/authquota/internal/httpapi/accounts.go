package httpapi

import (
	"math"
	"regexp"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
)

func (a API) shown(of account.Account) api.Account {
	now := a.Now()
	shown := api.Account{
		ID: of.ID, Status: of.State(), Tier: of.TierAt(now), Granted: of.Granted, Paid: of.PaidAt(now),
		Suspended: of.SuspendedAt != nil, SuspendedAt: of.SuspendedAt,
		CreatedAt: of.CreatedAt, MergedInto: of.MergedInto, ClosedAt: of.ClosedAt,
	}
	if shown.Suspended {
		shown.SuspendReason = &of.SuspendReason
	}
	return shown
}

func (a API) listAccounts(c call) (web.Reply, error) {
	page, err := c.page(account.CheckID)
	if err == nil && len(c.query["email"]) > maxFragment {
		err = problem.Invalid("email", "is longer than an address")
	}
	if err != nil {
		return web.Reply{}, err
	}
	accounts, more, err := a.People.Accounts(c.ctx, people.AccountSearch{Email: c.query["email"], Page: page})
	list := api.AccountList{Accounts: convert(accounts, func(l people.ListedAccount) api.ListedAccount {
		return api.ListedAccount{Account: a.shown(l.Account), Email: l.Email, UsedToday: l.UsedToday, Keys: l.ActiveKeys}
	})}
	if more {
		list.Next = accounts[len(accounts)-1].ID
	}
	return reply(list, err)
}

func (a API) showAccount(c call) (web.Reply, error) {
	if err := account.CheckID(c.Param("id")); err != nil {
		return web.Reply{}, err
	}
	seen, err := a.People.Account(c.ctx, c.Param("id"))
	return reply(api.AccountDetail{
		Account: a.shown(seen.Account), UsedToday: seen.UsedToday, PerDay: a.Tiers[seen.TierAt(a.Now())].PerDay,
		Person: seen.Person, Keys: convert(seen.Keys, a.listedKey), Requests: convert(seen.Requests, listedRequest),
		Audit: seen.Audit,
	}, err)
}

func (a API) suspend(c call) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.change(c, &body, func() (account.Change, error) { return account.Suspend(body.Reason) })
}

func (a API) resume(c call) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	return a.change(c, &body, func() (account.Change, error) { return account.Resume(body.Reason) })
}

func (a API) grant(c call) (web.Reply, error) {
	var body struct {
		Tier api.Tier `json:"tier"`
	}
	return a.change(c, &body, func() (account.Change, error) { return account.Grant(body.Tier) })
}

func (a API) resetAuthenticator(c call) (web.Reply, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	err := c.decode(&body, maxBody)
	if err == nil {
		err = account.CheckID(c.Param("id"))
	}
	if err != nil {
		return web.Reply{}, err
	}
	at, err := a.People.ScheduleReset(c.ctx, c.actor, c.Param("id"), body.Reason)
	return reply(api.AuthenticatorReset{ResetAt: at}, err)
}

// change applies the requested change and returns the account once the change is in effect.
func (a API) change(c call, body any, act func() (account.Change, error)) (web.Reply, error) {
	if err := c.decode(body, maxBody); err != nil {
		return web.Reply{}, err
	}
	requested, err := act()
	if err == nil {
		err = account.CheckID(c.Param("id"))
	}
	if err != nil {
		return web.Reply{}, err
	}
	changed, err := a.People.ChangeAccount(c.ctx, c.actor, c.Param("id"), requested)
	return reply(a.shown(changed), err)
}

// auditPage is the default length of a page of the audit log.
const auditPage = 50

// actionLike matches a prefix of an action.
var actionLike = regexp.MustCompile(`^[a-z_]{1,40}(\.[a-z_]{0,40})?$`)

// listAudit returns entries of the audit log. Reading the log is not recorded.
func (a API) listAudit(c call) (web.Reply, error) {
	search := people.AuditSearch{Account: c.query["account"], Action: c.query["action"], Actor: c.query["actor"]}
	var err error
	if search.Limit, err = c.query.Integer("limit", 1, api.MaxOperatorPageSize, auditPage); err == nil {
		search.Before, err = c.query.Integer("before", 1, math.MaxInt, 0)
	}
	for name, at := range map[string]*time.Time{"since": &search.Since, "until": &search.Until} {
		if err == nil {
			*at, err = c.query.Time(name)
		}
	}
	switch {
	case err != nil:
	case search.Account != "" && account.CheckID(search.Account) != nil:
		err = problem.Invalid("account", "must be the id of an account")
	case search.Action != "" && !actionLike.MatchString(search.Action):
		err = problem.Invalid("action", "must be the prefix of an action, such as key. or person.sign_in")
	case len(search.Actor) > maxFragment:
		err = problem.Invalid("actor", "is longer than a name")
	}
	if err != nil {
		return web.Reply{}, err
	}
	entries, more, err := a.People.Audit(c.ctx, search)
	list := api.AuditList{Entries: entries}
	if more {
		list.Next = entries[len(entries)-1].ID
	}
	return reply(list, err)
}

// announce creates an announcement or, if it exists, returns its progress. With dryRun it creates
// nothing.
func (a API) announce(c call) (web.Reply, error) {
	var body api.AnnouncementRequest
	if err := c.decode(&body, maxBody); err != nil {
		return web.Reply{}, err
	}
	want, err := notices.Announcement{
		ID: body.ID, Kind: notices.AnnouncementKind(body.Kind), Subject: body.Subject, Text: body.Text,
	}.Check()
	if err != nil {
		return web.Reply{}, err
	}
	letter, err := a.Notices.Preview(want)
	if err != nil {
		return web.Reply{}, err
	}
	var p notices.Progress
	if body.DryRun {
		p, err = a.Notices.Progress(c.ctx, want)
	} else {
		p, err = a.Notices.Announce(c.ctx, c.actor, want)
	}
	return reply(api.Announcement{
		ID: want.ID, Kind: string(want.Kind), Subject: letter.Subject, Text: letter.Text,
		Recipients: p.Recipients, Posted: p.Posted, CreatedAt: p.CreatedAt, FinishedAt: p.FinishedAt,
	}, err)
}
