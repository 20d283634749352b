package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	internalapi "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/pages"
)

// newPages returns the account pages.
func newPages(cfg Config, s settings, p *parts, errors problem.Writer) (*pages.Pages, error) {
	db := p.stores
	return pages.New(pages.Config{
		PublicURL: cfg.PublicURL, Contact: cfg.Contact, MailDirectory: cfg.Mail.Directory(), TermsVersion: cmp.Or(cfg.TermsVersion, api.TermsVersion), Peppers: s.peppers,
		AutoApprove: cfg.AutoApprove, ApproveTest: cfg.TestKeys, Tiers: s.tiers, Errors: errors, Now: cfg.Now,
		People: db.people, Accounts: db.accounts, Keys: db.keys, Usage: db.usage, RequestLog: db.log, Notices: db.notices, Plans: db.plan, Billing: p.seller,
		Available: p.available, Current: p.epochs.Current, InEffect: p.epochs.InEffect, MoveUsage: p.counters.DeliverMoves, Charged: p.counters.Used, Recent: p.counters.Recent,
	})
}

// newAPI returns the handler of the internal API.
func newAPI(cfg Config, s settings, p *parts, errors problem.Writer, ready http.Handler) http.Handler {
	db := p.stores
	return internalapi.API{
		Accounts: db.accounts, Keys: db.keys, Plans: db.plan, Usage: db.usage, RequestLog: db.log, Notices: db.notices,
		InEffect: p.epochs.InEffect, RedisReachable: p.epochs.Reachable, Restore: p.counters.Restore,
		Tiers: s.tiers, Peppers: s.peppers, OlderKeys: s.older, Errors: errors, Now: cfg.Now,
		Shared: api.SharedSettings{
			Tiers: s.tiers.List(), Peppers: apikey.Fingerprints(s.peppers), OlderKeys: cfg.OlderKeys, TermsVersion: cfg.TermsVersion,
		},
	}.Handler(ready)
}

// split routes page paths to the account pages and all others to the API.
func split(account *pages.Pages, api http.Handler) http.Handler {
	shown := account.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if account.Under(r.URL.Path) {
			shown.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
