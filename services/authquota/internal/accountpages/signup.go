package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

func (p *Pages) signUpForm(*Visit) (pages.View, error) {
	return pages.View{Template: "sign-up", Title: "Create an account", Data: addressForm{}}, nil
}

// signUp sends a mail to the address. The page does not reveal whether the address has an account.
func (p *Pages) signUp(v *Visit) (pages.View, error) {
	form, _ := p.signUpForm(v)
	return p.sendLink(v, form, people.LinkConfirm, "/account/sign-up/sent", func(l people.FreshLink) error {
		return p.People.RequestSignUp(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "confirm-address", Data: map[string]string{"link": p.linkTo("/account/confirm", l)}},
			mail.Message{To: l.Email, Template: "already-have-account", Data: map[string]string{"link": p.PublicURL + signInPath}})
	})
}

// confirmForm shows the form behind a link. Only submitting it uses the link, because mail scanners
// open links too.
func (p *Pages) confirmForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.Request.Context(), token(v), people.LinkConfirm)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	if id, _, err := p.People.Credentials(v.Request.Context(), l.Email); err != nil || id != "" { // by another link to the same address
		return gone(signInPath), err
	}
	return pages.View{
		Template: "password", Title: "Choose a password",
		Data: passwordForm{"/account/confirm", token(v), l.Email, "Create account"},
	}, nil
}

func (p *Pages) confirm(v *Visit) (pages.View, error) {
	again, err := p.confirmForm(v)
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
	admitted, err := p.People.SignUp(v.Request.Context(), form.Token, hash, v.Entry())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	v.Admit(admitted)
	return pages.View{Redirect: "/account/authenticator"}, err
}
