package pages

import (
	"context"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// Resets resets forgotten passwords.
type Resets interface {
	RequestReset(ctx context.Context, l people.FreshLink, message mail.Message) error
	ResetPassword(ctx context.Context, secret, passwordHash string, entry people.Entry, tried ...people.AttemptSubject) error
}

func (p *Pages) forgotForm(*site.Visit) (site.View, error) {
	return site.View{Template: "forgot", Title: "Forgotten password", Data: addressForm{}}, nil
}

// forgot sends a link if the address has an account. The page is the same in both cases.
func (p *Pages) forgot(v *site.Visit) (site.View, error) {
	form, _ := p.forgotForm(v)
	return p.sendLink(v, form, people.LinkReset, "/account/forgot/sent", func(l people.FreshLink) error {
		return p.Resets.RequestReset(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "reset-password", Data: map[string]string{"link": p.linkTo("/account/reset", l)}})
	})
}

func (p *Pages) resetForm(v *site.Visit) (site.View, error) {
	l, err := p.Links.Link(v.Request.Context(), token(v), people.LinkReset)
	return unlessGone("/account/forgot", site.View{
		Template: "password", Title: "Choose a new password",
		Data: passwordForm{"/account/reset", token(v), l.Email, "Change password"},
	}, err)
}

// reset sets the new password. The person then signs in with it and the second factor.
func (p *Pages) reset(v *site.Visit) (site.View, error) {
	again, err := p.resetForm(v)
	form, ok := again.Data.(passwordForm)
	if err != nil || !ok {
		return again, err
	}
	hash, wrong, err := newPassword(v, form.Email)
	switch {
	case err != nil:
		return site.View{}, err
	case wrong != "":
		return again.Wrong("password", wrong), nil
	}
	err = p.Resets.ResetPassword(v.Request.Context(), form.Token, hash, v.Entry(), people.AttemptsOnAddress(form.Email, v.Address()))
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/forgot"), nil
	}
	if err != nil {
		return site.View{}, err
	}
	v.Forget()
	return site.View{Redirect: site.SignIn, Notice: "Your password was changed. Sign in with the new one."}, nil
}
