package pages

import (
	"context"

	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
	"opportunity.internal/services/authquota/internal/totp"
)

// Replacements replaces authenticators.
type Replacements interface {
	ReplaceAuthenticator(ctx context.Context, current people.Session, seed people.NewSeed, step int64, tried ...people.AttemptSubject) (secret string, err error)
}

// replaceForm shows the seed of a new authenticator.
func (p *Pages) replaceForm(v *site.Visit) (site.View, error) {
	page, _, err := p.replacePage(v)
	return page, err
}

func (p *Pages) replacePage(v *site.Visit) (site.View, people.NewSeed, error) {
	form, seed, err := p.newSeedForm(v)
	return site.View{Template: "security-authenticator", Title: "Move to another authenticator app", Data: form}, seed, err
}

// replace replaces the authenticator after the first code of the new one.
func (p *Pages) replace(v *site.Visit) (site.View, error) {
	ctx := v.Request.Context()
	again, seed, err := p.replacePage(v)
	if err != nil {
		return site.View{}, err
	}
	if wait, err := p.Attempts.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return site.TooMany(v, again, wait), err
	}
	step, ok := totp.Step(seed.Seed, v.PostForm("code"), v.Now)
	if !ok {
		return again.Wrong("code", wrongNewCode), nil
	}
	secret, err := p.Replacements.ReplaceAuthenticator(ctx, v.Session, seed, step, inSession(v))
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("code", wrong), nil
	}
	if err != nil {
		return site.View{}, err
	}
	v.Renew(secret)
	return site.View{Redirect: site.Security, Notice: "The new authenticator is set up, and all other browsers were signed out. The old one no longer works."}, nil
}
