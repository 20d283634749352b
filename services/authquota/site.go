package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/store"
)

// newSite returns the account pages. It adds the stores to site.
func newSite(cfg Config, db *store.Store, site pages.Site) (*pages.Site, error) {
	site.Contact, site.TermsVersion = cfg.Contact, cmp.Or(cfg.TermsVersion, api.TermsVersion)
	site.Tokens, site.PublicURL, site.Now, site.Log, site.AutoApprove = cfg.Tokens, cfg.PublicURL, cfg.Now, site.Errors.Log, cfg.AutoApprove
	site.Sessions, site.Tries, site.Links, site.SignUps, site.Passwords = db, db, db, db, db
	site.Resets, site.Authenticators, site.Codes, site.Losses = db, db, db, db
	site.Passkeys, site.Challenges, site.Proofs, site.Changes, site.Replacements = db, db, db, db, db
	site.Presence, site.Events, site.Closing = db, db, db
	site.Keys, site.KeyRequests, site.KeyLives = db, db, db
	site.Overview, site.Usage, site.PlanActions = db, db, db
	return pages.New(site)
}

// split routes page paths to the account pages and all others to the API.
func split(site, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages.Under(r.URL.Path) {
			site.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
