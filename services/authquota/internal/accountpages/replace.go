package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

// replaceForm shows the seed of a new authenticator.
func (p *Pages) replaceForm(v *Visit) (pages.View, error) {
	page, _, err := p.replacePage(v)
	return page, err
}

func (p *Pages) replacePage(v *Visit) (pages.View, people.NewSeed, error) {
	form, seed, err := p.newSeedForm(v)
	return pages.View{Template: "security-authenticator", Title: "Move to another authenticator app", Data: form}, seed, err
}

// replace replaces the authenticator after the first code of the new one.
func (p *Pages) replace(v *Visit) (pages.View, error) {
	ctx := v.Request.Context()
	again, seed, err := p.replacePage(v)
	if err != nil {
		return pages.View{}, err
	}
	if wait, err := p.People.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	step, ok := credential.CodeStep(seed.Seed, v.PostForm("code"), v.Now)
	if !ok {
		return again.Wrong("code", wrongNewCode(seed)), nil
	}
	secret, err := p.People.ReplaceAuthenticator(ctx, v.Session, seed, step, inSession(v))
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("code", wrong), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Renew(secret)
	return pages.View{Redirect: securityPath, Notice: "The new authenticator is set up, and all other browsers were signed out. The old one no longer works."}, nil
}
