// Package pages holds the pages of an account's plan.
package pages

import (
	"embed"
	"log/slog"

	"opportunity.internal/services/authquota/internal/plan/tier"
	"opportunity.internal/services/authquota/internal/site"
)

// Pages holds the dependencies of the pages.
type Pages struct {
	PublicURL string
	Log       *slog.Logger
	Tiers     tier.Table
	Billing   Billing // nil if no plans are sold
	Actions   Actions
}

//go:embed templates
var templates embed.FS

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get("/account/plan", site.SignedIn, p.plan),
		site.Post("/account/plan/upgrade", site.Recent, p.upgrade),
		site.Post("/account/plan/portal", site.Recent, p.portal),
		site.Get("/account/plan/cancel", site.Recent, p.askCancel),
		site.Post("/account/plan/cancel", site.Recent, p.cancel),
		site.Post("/account/plan/resume", site.Recent, p.resume),
	}}
}
