package accountpages

import (
	"errors"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

type passwordForm struct{ Action, Token, Email, Button string }

func newPassword(v *Visit, email string) (hash, wrong string, err error) {
	chosen := v.PostForm("password")
	if rejected := credential.Rejection(""); errors.As(credential.CheckPassword(chosen, email), &rejected) {
		return "", rejected.Error(), nil
	}
	hash, err = credential.HashPassword(v.ctx(), chosen)
	return hash, "", err
}

func (p *Pages) passwordForm(*Visit) (pages.View, error) {
	return pages.View{Template: "security-password", Title: "Change your password"}, nil
}

// password changes the password. It requires the current one even after a recent proof.
func (p *Pages) password(v *Visit) (pages.View, error) {
	again, _ := p.passwordForm(v)
	ctx := v.ctx()
	given := v.PostForm("password")
	if err := credential.CheckPassword(given, v.Person.Email); err != nil {
		return again.Wrong("password", err.Error()), nil
	}
	if wait, err := p.People.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	before, err := p.rightPassword(v, v.PostForm("current"))
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("current", wrong), p.People.ConfirmFailed(ctx, v.Session, "password")
	}
	if err != nil {
		return pages.View{}, err
	}
	after, err := credential.HashPassword(ctx, given)
	if err != nil {
		return pages.View{}, problem.Unavailable(err)
	}
	secret, err := p.People.ChangePassword(ctx, v.Session, before, after, inSession(v))
	if err != nil {
		return pages.View{}, err
	}
	v.Renew(secret)
	return pages.View{
		Redirect: securityPath, Notice: "Your password was changed, and all other browsers were signed out.",
	}, nil
}

// rightPassword verifies a password and returns the hash it was verified against.
func (p *Pages) rightPassword(v *Visit, given string) (hash string, err error) {
	ctx := v.ctx()
	if hash, err = p.People.PasswordHash(ctx, v.Person.Account); err != nil {
		return "", err
	}
	ok, _, err := credential.VerifyPassword(ctx, given, hash)
	if err != nil {
		return "", problem.Unavailable(err)
	}
	if !ok {
		return "", problem.New(problem.InvalidParameter, "This is not the password of the account.")
	}
	return hash, nil
}

func (p *Pages) forgotForm(*Visit) (pages.View, error) {
	return pages.View{Template: "forgot", Title: "Forgotten password", Data: addressForm{}}, nil
}

// forgot sends a link if the address has an account. The page is the same in both cases.
func (p *Pages) forgot(v *Visit) (pages.View, error) {
	form, _ := p.forgotForm(v)
	return p.sendLink(v, form, people.LinkReset, "/account/forgot/sent", func(l people.FreshLink) error {
		return p.People.RequestReset(v.ctx(), l,
			mail.Message{
				To: l.Email, Template: "reset-password", Data: map[string]string{"link": p.linkTo("/account/reset", l)},
			})
	})
}

func (p *Pages) resetForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.ctx(), token(v), people.LinkReset)
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
	err = p.People.ResetPassword(v.ctx(), form.Token, hash, v.Entry(),
		people.AttemptsOnAddress.Of(v.network(), form.Email))
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/forgot"), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: "Your password was changed. Sign in with the new one."}, nil
}
