// Package pages holds the pages of an account's usage.
package pages

import (
	"embed"

	"opportunity.internal/services/authquota/internal/site"
)

// Pages holds the dependencies of the pages.
type Pages struct {
	Usage      Usage
	Allowances site.Allowances
}

//go:embed templates
var templates embed.FS

// Feature returns the pages with their access levels.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get("/account/usage", site.SignedIn, p.usage),
		site.Get("/account/usage.csv", site.SignedIn, p.csv),
	}}
}
