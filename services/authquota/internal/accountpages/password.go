package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

var passwordForm = pages.View{Template: "security-password", Title: "Change your password"}

// password changes the password. It requires the current one even after a recent proof.
func (p *Pages) password(v *Visit) (pages.View, error) {
	ctx, given := v.ctx(), v.PostForm("password")
	if err := credential.CheckPassword(given, v.Person.Email); err != nil {
		return passwordForm.Wrong("password", err.Error()), nil
	}
	return p.guess(v, static(passwordForm), []people.AttemptSubject{inSession(v)}, func() (string, pages.View, error) {
		before, err := p.rightPassword(v, v.PostForm("current"))
		if err != nil {
			return "current", pages.View{}, err
		}
		after, err := credential.HashPassword(ctx, given)
		if err != nil {
			return "", pages.View{}, problem.Unavailable(err)
		}
		secret, err := p.People.ChangePassword(ctx, v.Session, before, after, inSession(v))
		if err == nil {
			v.Renew(secret)
		}
		return "", pages.View{
			Redirect: securityPath, Notice: "Your password was changed, and all other browsers were signed out.",
		}, err
	}, func(string) error { return p.People.ConfirmFailed(ctx, v.Session, passwordFactor) })
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
