// Package pages holds the page on which a person chooses notices.
package pages

import (
	"context"
	"embed"
	"slices"

	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/site"
)

// Choices stores which notices an account gets.
type Choices interface {
	Choices(ctx context.Context, accountID string) (map[notices.Kind]bool, error)
	Choose(ctx context.Context, accountID string, wanted map[notices.Kind]bool) error
}

// Pages holds the dependencies of the page.
type Pages struct{ Choices Choices }

//go:embed templates
var templates embed.FS

const path = "/account/notices"

// Feature returns the page with its access level.
func (p *Pages) Feature() site.Feature {
	return site.Feature{Templates: templates, Routes: []site.Route{
		site.Get(path, site.SignedIn, p.form),
		site.Post(path, site.SignedIn, p.choose),
	}}
}

// choice is a checkbox.
type choice struct {
	notices.Choice

	Wanted bool
}

func (p *Pages) form(v *site.Visit) (site.View, error) {
	wanted, err := p.Choices.Choices(v.Request.Context(), v.Person.Account)
	var shown []choice
	for _, c := range notices.All {
		shown = append(shown, choice{c, wanted[c.Kind]})
	}
	return site.View{Template: "notices", Title: "Notices", Data: shown}, err
}

func (p *Pages) choose(v *site.Visit) (site.View, error) {
	sent, wanted := v.PostFormArray("notice"), map[notices.Kind]bool{}
	for _, c := range notices.All {
		wanted[c.Kind] = slices.Contains(sent, string(c.Kind))
	}
	err := p.Choices.Choose(v.Request.Context(), v.Person.Account, wanted)
	return site.View{Redirect: path, Notice: "Your choice was saved."}, err
}
