package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountpages"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/plan"
)

func newPages(cfg Config, s settings, p *parts, errors problem.Writer) (*accountpages.Pages, error) {
	return accountpages.New(accountpages.Config{
		PublicURL: cfg.PublicURL, Contact: cfg.Contact, MailDirectory: cfg.Mail.Directory(), TermsVersion: cmp.Or(cfg.TermsVersion, api.TermsVersion), Peppers: s.peppers,
		AutoApprove: cfg.AutoApprove, ApproveTest: cfg.TestKeys, Tiers: s.tiers, Errors: errors, Now: cfg.Now,
		DB: p.db, Billing: p.seller,
		Available: p.available, Current: p.epochs.Current, InEffect: p.epochs.InEffect, MoveUsage: p.counters.DeliverMoves, Charged: p.counters.Used, Recent: p.counters.Recent,
	})
}

func newAPI(cfg Config, s settings, p *parts, errors problem.Writer, ready http.Handler) http.Handler {
	return httpapi.API{
		People: people.NewStore(p.db), Keys: keys.NewStore(p.db), Plans: plan.NewStore(p.db), Usage: keyusage.NewStore(p.db),
		RequestLog: keyusage.NewRequestLog(p.db), Notices: p.notices,
		InEffect: p.epochs.InEffect, RedisReachable: p.epochs.Reachable, Restore: p.counters.Restore,
		Tiers: s.tiers, Peppers: s.peppers, OlderKeys: s.older, Errors: errors, Now: cfg.Now,
		Shared: api.SharedSettings{
			Tiers: s.tiers.List(), Peppers: apikey.Fingerprints(s.peppers), OlderKeys: cfg.OlderKeys, TermsVersion: cfg.TermsVersion,
		},
	}.Handler(ready)
}

// split routes page paths to the account pages and all others to the API.
func split(account *accountpages.Pages, api http.Handler) http.Handler {
	shown := account.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if account.Under(r.URL.Path) {
			shown.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
