package accountpages

import (
	"slices"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/notices"
)

const noticesPath = "/account/notices"

// noticeChoice is a checkbox.
type noticeChoice struct {
	notices.Choice

	Wanted bool
}

func (p *Pages) noticesForm(v *Visit) (pages.View, error) {
	wanted, err := p.Notices.Choices(v.ctx(), v.Person.Account)
	var shown []noticeChoice
	for _, c := range notices.All {
		shown = append(shown, noticeChoice{c, wanted[c.Kind]})
	}
	return pages.View{Template: "notices", Title: "Notices", Data: shown}, err
}

func (p *Pages) chooseNotices(v *Visit) (pages.View, error) {
	sent, wanted := v.PostFormArray("notice"), map[notices.Kind]bool{}
	for _, c := range notices.All {
		wanted[c.Kind] = slices.Contains(sent, string(c.Kind))
	}
	err := p.Notices.Choose(v.ctx(), v.Person.Account, wanted)
	return pages.View{Redirect: noticesPath, Notice: "Your choice was saved."}, err
}
