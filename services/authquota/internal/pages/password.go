package pages

import (
	"context"
	"errors"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// PasswordChanges changes the password. It sends its mail and writes the audit log.
type PasswordChanges interface {
	PasswordHash(ctx context.Context, accountID string) (string, error)
	// ChangePassword returns the session's new secret.
	ChangePassword(ctx context.Context, current people.Session, before, after string, tried ...people.AttemptSubject) (secret string, err error)
}

// passwordForm is the data of a form for a new password.
type passwordForm struct{ Action, Token, Email, Button string }

// newPassword returns the hash of the submitted password, or what is wrong with it.
func newPassword(v *site.Visit, email string) (hash, wrong string, err error) {
	chosen := v.PostForm("password")
	if rejected := password.Rejection(""); errors.As(password.Check(chosen, email), &rejected) {
		return "", rejected.Error(), nil
	}
	hash, err = password.Hash(v.Request.Context(), chosen)
	return hash, "", err
}

func (p *Pages) passwordForm(*site.Visit) (site.View, error) {
	return site.View{Template: "security-password", Title: "Change your password"}, nil
}

// password changes the password. It requires the current one even after a recent proof.
func (p *Pages) password(v *site.Visit) (site.View, error) {
	again, _ := p.passwordForm(v)
	ctx := v.Request.Context()
	given := v.PostForm("password")
	if err := password.Check(given, v.Person.Email); err != nil {
		return again.Wrong("password", err.Error()), nil
	}
	if wait, err := p.Attempts.CountAttempt(ctx, inSession(v)); err != nil || wait > 0 {
		return site.TooMany(v, again, wait), err
	}
	before, err := p.rightPassword(v, v.PostForm("current"))
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("current", wrong), p.Proofs.ConfirmFailed(ctx, v.Session, "password")
	}
	if err != nil {
		return site.View{}, err
	}
	after, err := password.Hash(ctx, given)
	if err != nil {
		return site.View{}, problem.Unavailable(err)
	}
	secret, err := p.PasswordChanges.ChangePassword(ctx, v.Session, before, after, inSession(v))
	if err != nil {
		return site.View{}, err
	}
	v.Renew(secret)
	return site.View{Redirect: site.Security, Notice: "Your password was changed, and all other browsers were signed out."}, nil
}

// rightPassword verifies a password and returns the hash it was verified against.
func (p *Pages) rightPassword(v *site.Visit, given string) (hash string, err error) {
	ctx := v.Request.Context()
	if hash, err = p.PasswordChanges.PasswordHash(ctx, v.Person.Account); err != nil {
		return "", err
	}
	ok, _, err := password.Verify(ctx, given, hash)
	if err != nil {
		return "", problem.Unavailable(err)
	}
	if !ok {
		return "", problem.New(problem.InvalidParameter, "This is not the password of the account.")
	}
	return hash, nil
}
