package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/pages"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/site"
)

// newSite returns the account pages. billing is nil if no plans are sold.
func newSite(cfg Config, s settings, p *parts, errors problem.Writer, billing pages.Billing) (*site.Site, error) {
	description, err := apidoc.Published()
	if err != nil {
		return nil, err
	}
	db := p.stores
	account := &pages.Pages{
		PublicURL: cfg.PublicURL, RelyingParty: passkey.At(cfg.PublicURL, pages.Issuer), Peppers: s.peppers,
		TermsVersion: cmp.Or(cfg.TermsVersion, api.TermsVersion), AutoApprove: cfg.AutoApprove, ApproveTest: cfg.TestKeys, Tiers: s.tiers,
		API: description, Log: errors.Log, Apply: p.apply, Epochs: p.epochs, Billing: billing,
		Allowances: site.Allowances{Tiers: s.tiers, Counters: p.counters, Ledger: db.usage},
		Sessions:   db.people, Attempts: db.people, Links: db.people, SignUps: db.people, Passwords: db.people, Resets: db.people,
		Codes: db.people, Authenticators: db.people, Replacements: db.people, Losses: db.people,
		Passkeys: db.people, Challenges: db.people, Proofs: db.people, Renewals: db.people, UnusedCodes: db.people,
		PasswordChanges: db.people, AddressChanges: db.people, AddressLinks: db.people, Closing: db.people, Events: db.accounts,
		Overview: db.keys, Keys: db.keys, ExplorerKeys: db.keys, KeyUsage: db.usage, Requests: db.keys, TestKeys: db.keys, Rotations: db.keys,
		Revocations: db.keys, Connections: db.keys, Usage: db.usage, RequestLog: db.log, Choices: db.notices, Actions: db.plan,
	}
	return site.New(
		site.Config{
			Errors: errors, PublicURL: cfg.PublicURL, Contact: cfg.Contact, Now: cfg.Now, Sessions: db.people,
			Available: p.available,
		},
		account.Feature())
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
