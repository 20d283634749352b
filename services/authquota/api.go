package authquota

import (
	"net/http"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/api"
)

// newAPI returns the handler of the internal API.
func newAPI(cfg Config, s settings, p *parts, errors problem.Writer, ready http.Handler) http.Handler {
	db := p.stores
	routes := api.API{
		Accounts: db.accounts, Audit: db.accounts, Keys: db.keys, Requests: db.keys, Principals: db.keys, Entitlements: db.plan,
		Announcements: db.notices, RequestLog: db.log, Counters: p.counters, Batches: db.usage, Charts: db.usage, Epochs: p.epochs,
		Tiers: s.tiers, Peppers: s.peppers, OlderKeys: s.older, Log: errors.Log, Now: cfg.Now,
	}.Routes()
	return api.Handler(errors, ready, routes)
}
