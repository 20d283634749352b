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
	"opportunity.internal/services/authquota/internal/people"
)

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
