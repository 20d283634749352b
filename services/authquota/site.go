package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	homepages "opportunity.internal/services/authquota/internal/home/pages"
	keypages "opportunity.internal/services/authquota/internal/keys/pages"
	"opportunity.internal/services/authquota/internal/passkey"
	peoplepages "opportunity.internal/services/authquota/internal/people/pages"
	planpages "opportunity.internal/services/authquota/internal/plan/pages"
	"opportunity.internal/services/authquota/internal/site"
	usagepages "opportunity.internal/services/authquota/internal/usage/pages"
)

// newSite returns the account pages. billing is nil if no plans are sold.
func newSite(cfg Config, s settings, p *parts, errors problem.Writer, counters site.Counters, billing planpages.Billing) (*site.Site, error) {
	db := p.store
	terms := cmp.Or(cfg.TermsVersion, api.TermsVersion)
	allowances := site.Allowances{Tiers: s.tiers, Counters: counters, Ledger: db}
	people := &peoplepages.Pages{
		PublicURL: cfg.PublicURL, RelyingParty: passkey.At(cfg.PublicURL, peoplepages.Issuer), TermsVersion: terms, Log: errors.Log, Apply: p.apply,
		Sessions: db, Attempts: db, Links: db, SignUps: db, Passwords: db, Codes: db, Resets: db, Authenticators: db, Losses: db, Passkeys: db,
		Challenges: db, Proofs: db, Security: db, PasswordChanges: db, AddressChanges: db, Replacements: db, Closing: db,
	}
	keys := &keypages.Pages{
		Keys: db, Requests: db, Rotations: db, Revocations: db, Connections: db, Attempts: db,
		Apply: p.apply, Peppers: s.peppers, TermsVersion: terms, AutoApprove: cfg.AutoApprove,
	}
	usage := &usagepages.Pages{Usage: db, Allowances: allowances}
	plan := &planpages.Pages{PublicURL: cfg.PublicURL, Log: errors.Log, Tiers: s.tiers, Billing: billing, Actions: db}
	home := &homepages.Pages{PublicURL: cfg.PublicURL, Overview: db, Allowances: allowances}
	return site.New(
		site.Config{Errors: errors, Tokens: cfg.Tokens, PublicURL: cfg.PublicURL, Contact: cfg.Contact, Now: cfg.Now, Sessions: db},
		home.Feature(), people.Feature(), keys.Feature(), usage.Feature(), plan.Feature())
}

// split routes page paths to the account pages and all others to the API.
func split(pages, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site.Under(r.URL.Path) {
			pages.ServeHTTP(w, r)
		} else {
			api.ServeHTTP(w, r)
		}
	})
}
