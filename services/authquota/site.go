package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/store"
)

// newSite puts the account's pages together, on what is kept and on what site has already.
func newSite(cfg Config, kept *store.Store, site pages.Site) (*pages.Site, error) {
	site.Contact, site.TermsVersion = cfg.Contact, cmp.Or(cfg.TermsVersion, api.TermsVersion)
	site.Tokens, site.PublicURL, site.Now, site.Log, site.AutoApprove = cfg.Tokens, cfg.PublicURL, cfg.Now, site.Errors.Log, cfg.AutoApprove
	site.Sessions, site.Tries, site.Links, site.SignUps, site.Passwords = kept, kept, kept, kept, kept
	site.Resets, site.Authenticators, site.Codes, site.Losses = kept, kept, kept, kept
	site.Passkeys, site.Challenges, site.Proofs, site.Changes, site.Replacements = kept, kept, kept, kept, kept
	site.Presence, site.Events, site.Closing = kept, kept, kept
	site.Keys, site.KeyRequests, site.KeyLives = kept, kept, kept
	site.Overview, site.Usage, site.Wishes = kept, kept, kept
	return pages.New(site)
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
