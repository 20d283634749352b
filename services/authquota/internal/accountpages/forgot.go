package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

func (p *Pages) forgotForm(*Visit) (pages.View, error) {
	return pages.View{Template: "forgot", Title: "Forgotten password", Data: addressForm{}}, nil
}

// forgot sends a link if the address has an account. The page is the same in both cases.
func (p *Pages) forgot(v *Visit) (pages.View, error) {
	form, _ := p.forgotForm(v)
	return p.sendLink(v, form, people.LinkReset, "/account/forgot/sent", func(l people.FreshLink) error {
		return p.People.RequestReset(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "reset-password", Data: map[string]string{"link": p.linkTo("/account/reset", l)}})
	})
}

func (p *Pages) resetForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.Request.Context(), token(v), people.LinkReset)
	return unlessGone("/account/forgot", pages.View{
		Template: "password", Title: "Choose a new password",
		Data: passwordForm{"/account/reset", token(v), l.Email, "Change password"},
	}, err)
}

// reset sets the new password. The person then signs in with it and the second factor.
func (p *Pages) reset(v *Visit) (pages.View, error) {
	again, err := p.resetForm(v)
	form, ok := again.Data.(passwordForm)
	if err != nil || !ok {
		return again, err
	}
	hash, wrong, err := newPassword(v, form.Email)
	switch {
	case err != nil:
		return pages.View{}, err
	case wrong != "":
		return again.Wrong("password", wrong), nil
	}
	err = p.People.ResetPassword(v.Request.Context(), form.Token, hash, v.Entry(), people.AttemptsOnAddress(form.Email, v.Address()))
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/forgot"), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: "Your password was changed. Sign in with the new one."}, nil
}
