package httpapi

import (
	"cmp"
	"math"
	"regexp"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/people"
)

func (a API) listAccounts(c call) (any, error) {
	page, err := c.page("account")
	if err == nil && len(c.query["email"]) > maxFragment {
		err = problem.Invalid("email", "is longer than an address")
	}
	if err != nil {
		return nil, err
	}
	return a.People.Accounts(c.ctx, c.query["email"], page)
}

func (a API) showAccount(c call) (any, error) {
	shown, err := a.People.Account(c.ctx, c.Param("account"))
	shown.PerDay = a.Tiers[shown.Tier].PerDay
	return shown, err
}

type reason struct {
	Reason string `json:"reason"`
}

func (a API) suspend(c call, in reason) (any, error) {
	change, err := account.Suspend(in.Reason)
	return a.change(c, change, err)
}

func (a API) resume(c call, in reason) (any, error) {
	change, err := account.Resume(in.Reason)
	return a.change(c, change, err)
}

func (a API) grant(c call, in struct {
	Tier api.Tier `json:"tier"`
}) (any, error) {
	change, err := account.Grant(in.Tier)
	return a.change(c, change, err)
}

// change applies the requested change, unless it is invalid, and returns the account once the
// change is in effect.
func (a API) change(c call, requested account.Change, invalid error) (any, error) {
	if invalid != nil {
		return nil, invalid
	}
	changed, err := a.People.ChangeAccount(c.ctx, c.actor, c.Param("account"), requested)
	return changed.Listed(a.Now()), err
}

func (a API) resetAuthenticator(c call, in reason) (any, error) {
	at, err := a.People.ScheduleReset(c.ctx, c.actor, c.Param("account"), in.Reason)
	return api.AuthenticatorReset{ResetAt: at}, err
}

// auditPage is the default length of a page of the audit log.
const auditPage = 50

// actionLike matches a prefix of an action.
var actionLike = regexp.MustCompile(`^[a-z_]{1,40}(\.[a-z_]{0,40})?$`)

// listAudit returns entries of the audit log. Reading the log is not recorded.
func (a API) listAudit(c call) (any, error) {
	search := people.AuditSearch{Account: c.query["account"], Action: c.query["action"], Actor: c.query["actor"]}
	var errs [4]error
	search.Limit, errs[0] = c.query.Integer("limit", 1, api.MaxOperatorPageSize, auditPage)
	search.Before, errs[1] = c.query.Integer("before", 1, math.MaxInt, 0)
	search.Since, errs[2] = c.query.Time("since")
	search.Until, errs[3] = c.query.Time("until")
	err := cmp.Or(errs[:]...)
	switch {
	case err != nil:
	case search.Account != "" && accountdb.CheckID("account", search.Account) != nil:
		err = problem.Invalid("account", "must be the id of an account")
	case search.Action != "" && !actionLike.MatchString(search.Action):
		err = problem.Invalid("action", "must be the prefix of an action, such as key. or person.sign_in")
	case len(search.Actor) > maxFragment:
		err = problem.Invalid("actor", "is longer than a name")
	}
	if err != nil {
		return nil, err
	}
	entries, more, err := a.People.Audit(c.ctx, search)
	list := api.AuditList{Entries: entries}
	if more {
		list.Next = entries[len(entries)-1].ID
	}
	return list, err
}

// announce creates an announcement or, if it exists, returns its progress. With dryRun it creates
// nothing.
func (a API) announce(c call, in api.AnnouncementRequest) (any, error) {
	return a.Notices.Announce(c.ctx, c.actor, in)
}
