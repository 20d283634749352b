package authquota

import (
	"cmp"
	"net/http"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/problem"
	explorerpages "opportunity.internal/services/authquota/internal/explorer/pages"
	homepages "opportunity.internal/services/authquota/internal/home/pages"
	keypages "opportunity.internal/services/authquota/internal/keys/pages"
	noticepages "opportunity.internal/services/authquota/internal/notices/pages"
	peoplepages "opportunity.internal/services/authquota/internal/people/pages"
	"opportunity.internal/services/authquota/internal/people/passkey"
	planpages "opportunity.internal/services/authquota/internal/plan/pages"
	codepages "opportunity.internal/services/authquota/internal/recoverycodes/pages"
	logpages "opportunity.internal/services/authquota/internal/requestlog/pages"
	"opportunity.internal/services/authquota/internal/site"
	usagepages "opportunity.internal/services/authquota/internal/usage/pages"
)

// newSite returns the account pages. billing is nil if no plans are sold.
func newSite(cfg Config, s settings, p *parts, errors problem.Writer, counters site.Counters, billing planpages.Billing) (*site.Site, error) {
	db := p.stores
	terms := cmp.Or(cfg.TermsVersion, api.TermsVersion)
	allowances := site.Allowances{Tiers: s.tiers, Counters: counters, Ledger: db.usage}
	people := &peoplepages.Pages{
		PublicURL: cfg.PublicURL, RelyingParty: passkey.At(cfg.PublicURL, peoplepages.Issuer), TermsVersion: terms, Log: errors.Log, Apply: p.apply,
		Sessions: db.signIns, Attempts: db.signIns, Links: db.signIns, SignUps: db.signIns, Passwords: db.signIns, Resets: db.signIns,
		Codes: db.factors, Authenticators: db.factors, Replacements: db.factors, Losses: db.factors,
		Passkeys: db.factors, Challenges: db.factors, Proofs: db.factors,
		PasswordChanges: db.profiles, AddressChanges: db.profiles, AddressLinks: db.profiles, Closing: db.profiles, Events: db.accounts,
	}
	codes := &codepages.Pages{Renewals: db.factors, Codes: db.codes}
	keys := &keypages.Pages{
		Keys: db.keys, Requests: db.keys, TestKeys: db.keys, Rotations: db.keys, Revocations: db.keys, Connections: db.keys, Usage: db.usage, Attempts: db.signIns,
		Apply: p.apply, Peppers: s.peppers, TermsVersion: terms, AutoApprove: cfg.AutoApprove,
		ApproveTest: cfg.TestKeys,
	}
	usage := &usagepages.Pages{Usage: db.usage, Allowances: allowances}
	notices := &noticepages.Pages{Choices: db.notices}
	log := &logpages.Pages{Log: db.log}
	plan := &planpages.Pages{PublicURL: cfg.PublicURL, Log: errors.Log, Tiers: s.tiers, Billing: billing, Actions: db.plan}
	home := &homepages.Pages{PublicURL: cfg.PublicURL, Overview: db.keys, Allowances: allowances}
	description, err := apidoc.Published()
	if err != nil {
		return nil, err
	}
	explorer := &explorerpages.Pages{PublicURL: cfg.PublicURL, API: description, Keys: db.keys, Epochs: p.epochs, Tiers: s.tiers}
	return site.New(
		site.Config{
			Errors: errors, PublicURL: cfg.PublicURL, Contact: cfg.Contact, Now: cfg.Now, Sessions: db.signIns,
			Available: p.witness.available,
		},
		home.Feature(), people.Feature(), codes.Feature(), keys.Feature(), explorer.Feature(), usage.Feature(), log.Feature(), notices.Feature(), plan.Feature())
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
