package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/totp"
)

func (s *Site) passwordForm(*visit) (view, error) {
	return view{Template: "security-password", Title: "Change your password"}, nil
}

// password changes the password. It requires the current one even after a recent proof.
func (s *Site) password(v *visit) (view, error) {
	again, _ := s.passwordForm(v)
	ctx := v.Request.Context()
	given := v.PostForm("password")
	if err := password.Check(given, v.Person.Email); err != nil {
		again.Errors = []formError{{"password", err.Error()}}
		return again, nil
	}
	if wait, err := s.Tries.Try(ctx, v.again()); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	before, err := s.rightPassword(v, v.PostForm("current"))
	if wrong := inputError(err); wrong != "" {
		again.Errors = []formError{{"current", wrong}}
		return again, s.Proofs.ConfirmFailed(ctx, v.Session, "password")
	}
	if err != nil {
		return view{}, err
	}
	after, err := password.Hash(ctx, given)
	if err != nil {
		return view{}, problem.Unavailable(err)
	}
	secret, err := s.Changes.ChangePassword(ctx, v.Session, before, after, v.again())
	if err != nil {
		return view{}, err
	}
	v.renewed(secret)
	return view{Redirect: security, Notice: "Your password was changed, and all other browsers were signed out."}, nil
}

// replaceForm shows the seed of a new authenticator.
func (s *Site) replaceForm(v *visit) (view, error) {
	page, _, err := s.replacePage(v)
	return page, err
}

func (s *Site) replacePage(v *visit) (view, account.NewSeed, error) {
	form, seed, err := s.newSeedForm(v)
	return view{Template: "security-authenticator", Title: "Move to another authenticator app", Data: form}, seed, err
}

// replace replaces the authenticator after the first code of the new one.
func (s *Site) replace(v *visit) (view, error) {
	ctx := v.Request.Context()
	again, seed, err := s.replacePage(v)
	if err != nil {
		return view{}, err
	}
	if wait, err := s.Tries.Try(ctx, v.again()); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	step, ok := totp.Step(seed.Seed, v.PostForm("code"), v.now)
	if !ok {
		again.Errors = []formError{errNewCode}
		return again, nil
	}
	secret, err := s.Replacements.ReplaceAuthenticator(ctx, v.Session, seed, step, v.again())
	if wrong := inputError(err); wrong != "" {
		again.Errors = []formError{{"code", wrong}}
		return again, nil
	}
	if err != nil {
		return view{}, err
	}
	v.renewed(secret)
	return view{Redirect: security, Notice: "The new authenticator is set up, and all other browsers were signed out. The old one no longer works."}, nil
}
