package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
)

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
