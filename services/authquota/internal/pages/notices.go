package pages

import (
	"context"
	"slices"

	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/site"
)

// Choices stores which notices an account gets.
type Choices interface {
	Choices(ctx context.Context, accountID string) (map[notices.Kind]bool, error)
	Choose(ctx context.Context, accountID string, wanted map[notices.Kind]bool) error
}

const noticesPath = "/account/notices"

// noticeChoice is a checkbox.
type noticeChoice struct {
	notices.Choice

	Wanted bool
}

func (p *Pages) noticesForm(v *site.Visit) (site.View, error) {
	wanted, err := p.Choices.Choices(v.Request.Context(), v.Person.Account)
	var shown []noticeChoice
	for _, c := range notices.All {
		shown = append(shown, noticeChoice{c, wanted[c.Kind]})
	}
	return site.View{Template: "notices", Title: "Notices", Data: shown}, err
}

func (p *Pages) chooseNotices(v *site.Visit) (site.View, error) {
	sent, wanted := v.PostFormArray("notice"), map[notices.Kind]bool{}
	for _, c := range notices.All {
		wanted[c.Kind] = slices.Contains(sent, string(c.Kind))
	}
	err := p.Choices.Choose(v.Request.Context(), v.Person.Account, wanted)
	return site.View{Redirect: noticesPath, Notice: "Your choice was saved."}, err
}
