package authquota

import (
	"net/http"

	"opportunity.internal/pkg/problem"
	accountviewapi "opportunity.internal/services/authquota/internal/accountview/api"
	"opportunity.internal/services/authquota/internal/httpapi"
	keysapi "opportunity.internal/services/authquota/internal/keys/api"
	noticesapi "opportunity.internal/services/authquota/internal/notices/api"
	planapi "opportunity.internal/services/authquota/internal/plan/api"
	logapi "opportunity.internal/services/authquota/internal/requestlog/api"
	usageapi "opportunity.internal/services/authquota/internal/usage/api"
)

// newAPI returns the handler of the internal API.
func newAPI(cfg Config, s settings, p *parts, errors problem.Writer, ready http.Handler) http.Handler {
	db := p.stores
	accounts := accountviewapi.API{Accounts: db.accounts, Audit: db.accounts, Epochs: p.epochs, Tiers: s.tiers, Now: cfg.Now}
	keys := keysapi.API{
		Keys: db.keys, Requests: db.keys, Principals: db.keys, Verify: p.witness.verify, Epochs: p.epochs, Tiers: s.tiers, Peppers: s.peppers, OlderKeys: s.older, Now: cfg.Now,
	}
	plan := planapi.API{Entitlements: db.plan, Billing: db.plan, Epochs: p.epochs, Tiers: s.tiers}
	usage := usageapi.API{Counters: p.restorer, Batches: db.usage, Charts: db.usage, Log: errors.Log, Now: cfg.Now}
	log := logapi.API{Log: db.log, Now: cfg.Now}
	notices := noticesapi.API{Announcements: db.notices}
	return httpapi.Handler(errors, ready, accounts.Routes(), keys.Routes(), plan.Routes(), usage.Routes(), log.Routes(), notices.Routes())
}
