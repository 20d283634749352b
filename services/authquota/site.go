package authquota

import (
	"net/http"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/store"
	"opportunity.internal/services/authquota/internal/tier"
)

// newSite puts the account's pages together.
func newSite(cfg Config, refusals problem.Writer, kept *store.Store, counters pages.Counters, tiers tier.Table) (*pages.Site, error) {
	return pages.New(pages.Site{
		Errors: refusals, Tokens: cfg.Tokens, PublicURL: cfg.PublicURL, Now: cfg.Now, Log: refusals.Log,
		Sessions: kept, Tries: kept, Links: kept, SignUps: kept, Passwords: kept, Resets: kept, Authenticators: kept, Codes: kept, Losses: kept,
		Overview: kept, Usage: kept, Counters: counters, Tiers: tiers,
	})
}

// split sends browsers to the account's pages and everybody else to the API.
func split(site, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages.Under(r.URL.Path) {
			site.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
