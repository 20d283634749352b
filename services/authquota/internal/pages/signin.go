package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/recovery"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
	"opportunity.internal/services/authquota/internal/totp"
)

func (s *Site) signInForm(v *visit) (view, error) {
	if secret := v.cookie(sessionCookie); secret != "" {
		if current, _, err := s.Sessions.Session(v.Request.Context(), secret); err == nil && current.Stage == session.Full {
			return view{Redirect: v.next()}, nil
		}
	}
	return view{Template: "sign-in", Title: "Sign in", Data: addressForm{Next: v.onward()}}, nil
}

// onward returns the page to continue to, for a form or a link; empty for the home page.
func (v *visit) onward() string {
	if next := v.next(); next != home {
		return next
	}
	return ""
}

// signIn verifies the password. An unknown address has the same response and timing as a wrong password.
func (s *Site) signIn(v *visit) (view, error) {
	ctx := v.Request.Context()
	email, valid := account.Email(v.PostForm("email"))
	again := view{Template: "sign-in", Title: "Sign in", Data: addressForm{email, v.onward()}}
	if !valid {
		again.Errors = []formError{errEmail}
		return again, nil
	}
	address, network := throttle.OfAddress(email, v.address()), throttle.FromNetwork(v.address())
	if wait, err := s.Tries.Try(ctx, address, network); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	id, hash, err := s.Passwords.Credentials(ctx, email)
	if err != nil {
		return view{}, err
	}
	given := v.PostForm("password")
	ok, outdated, err := password.Verify(ctx, given, hash) // also verifies the empty hash of an unknown address
	if err != nil {
		return view{}, problem.Unavailable(err)
	}
	if !ok || id == "" {
		again.Errors = []formError{{"email", "The e-mail address or the password is wrong."}}
		return again, s.Passwords.SignInFailed(ctx, id, "password", v.client(), address)
	}
	if outdated {
		if better, err := password.Hash(ctx, given); err != nil {
			return view{}, problem.Unavailable(err)
		} else if err := s.Passwords.Rehash(ctx, id, hash, better); err != nil {
			return view{}, err
		}
	}
	admitted, err := s.Passwords.SignInHalfway(ctx, id, v.entry(), address, network)
	v.admit(admitted)
	return view{Redirect: with("/account/sign-in/code", "next", v.onward())}, err
}

// codePage is the data of the form for the second factor.
type codePage struct {
	Next    string
	Options string // WebAuthn options; empty if the person has no passkey
}

// codeForm asks for the second factor.
func (s *Site) codeForm(v *visit) (view, error) {
	if !v.Person.AuthenticatorConfirmed {
		return view{Redirect: "/account/authenticator"}, nil
	}
	options, err := s.beginProof(v)
	return view{Template: "code", Title: "Second step", Data: codePage{v.onward(), options}}, err
}

// code verifies a code of the authenticator or a recovery code.
func (s *Site) code(v *visit) (view, error) {
	again, err := s.codeForm(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	ctx := v.Request.Context()
	tried, err := s.secondStep(v)
	if err != nil {
		return view{}, err
	}
	if wait, err := s.Tries.Try(ctx, tried...); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	admitted, err := s.secondFactor(v, v.PostForm("code"), tried...)
	if problem.Of(err).Code == problem.InvalidParameter {
		again.Errors = []formError{{"code", problem.Of(err).Message}}
		return again, s.Passwords.SignInFailed(ctx, v.Person.Account, "code", v.client(), tried[0])
	}
	v.admit(admitted)
	return view{Redirect: v.next()}, err
}

func (s *Site) secondFactor(v *visit, given string, tried ...throttle.Subject) (session.Admitted, error) {
	ctx := v.Request.Context()
	if recovery.Matches(given) {
		admitted, err := s.Codes.SignInByRecoveryCode(ctx, v.Session, v.entry(), recovery.Hash(given), tried...)
		if problem.Of(err).Code == problem.InvalidParameter {
			err = problem.New(problem.InvalidParameter, "This recovery code is wrong or was already used.")
		}
		return admitted, err
	}
	seed, err := s.Codes.Seed(ctx, v.Person.Account)
	if err != nil {
		return session.Admitted{}, err
	}
	step, ok := totp.Step(seed, given, v.now)
	if !ok {
		return session.Admitted{}, errCode()
	}
	return s.Codes.SignInByCode(ctx, v.Session, v.entry(), step, tried...)
}

func errCode() error {
	return problem.New(problem.InvalidParameter, "The code is wrong. Enter the one that the app shows now.")
}
