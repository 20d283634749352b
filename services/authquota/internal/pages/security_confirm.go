package pages

import (
	"errors"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/recovery"
	"opportunity.internal/services/authquota/internal/totp"
)

// proofForm is the data of the page that asks for a factor.
type proofForm struct {
	Next    string
	Options string // WebAuthn options; empty if passkeys are not possible
}

// proveForm asks a signed-in person for a factor again, before a sensitive action.
func (s *Site) proveForm(v *visit) (view, error) {
	options, err := s.beginProof(v)
	next := v.next()
	if next == home {
		next = security
	}
	return view{Template: "security-confirm", Title: "Confirm your identity", Data: proofForm{next, options}}, err
}

// prove verifies a code of the authenticator, the password or a passkey.
func (s *Site) prove(v *visit) (view, error) {
	ctx := v.Request.Context()
	next := v.next()
	if next == home {
		next = security
	}
	if v.Session.Superseded { // the form was submitted twice; the browser has, or will get, the new secret
		return view{Redirect: next}, nil
	}
	factor, by := "code", s.proveByCode
	switch {
	case v.PostForm("answer") != "":
		factor, by = "", s.proveByPasskey // no field: sent by the script
	case v.PostForm("password") != "":
		factor, by = "password", s.proveByPassword
	}
	wait, err := s.Tries.Try(ctx, v.again())
	if err != nil {
		return view{}, err
	}
	if wait > 0 {
		again, err := s.proveForm(v)
		return slower(v, again, wait), err
	}
	secret, err := by(v)
	if wrong := inputError(err); wrong != "" {
		again, err := s.proveForm(v) // with a new challenge, because the last one was used
		again.Errors = []formError{{factor, wrong}}
		if err != nil {
			return again, err
		}
		return again, s.Proofs.ConfirmFailed(ctx, v.Session, map[string]string{"": "passkey", "code": "authenticator", "password": "password"}[factor])
	}
	if err != nil {
		return view{}, err
	}
	v.renewed(secret)
	return view{Redirect: next}, nil
}

// inputError returns the message for wrong input, or an empty string for any other error.
func inputError(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, passkey.ErrRejected):
		return "This passkey was not accepted. Try again, or use another way."
	case problem.Of(err).Code == problem.InvalidParameter:
		return problem.Of(err).Message
	}
	return ""
}

// renewed sets the cookie to the session's new secret.
func (v *visit) renewed(secret string) { v.setCookie(sessionCookie, secret, 0) }

func (s *Site) proveByCode(v *visit) (string, error) {
	ctx := v.Request.Context()
	seed, err := s.Codes.Seed(ctx, v.Person.Account)
	if err != nil {
		return "", err
	}
	given := v.PostForm("code")
	step, ok := totp.Step(seed, given, v.now)
	switch {
	case recovery.Matches(given):
		return "", problem.New(problem.InvalidParameter, "Recovery codes work only at sign-in. Use a code from the app or your password.")
	case !ok:
		return "", errCode()
	}
	return s.Proofs.ConfirmByCode(ctx, v.Session, step, v.again())
}

func (s *Site) proveByPassword(v *visit) (string, error) {
	hash, err := s.rightPassword(v, v.PostForm("password"))
	if err != nil {
		return "", err
	}
	return s.Proofs.ConfirmByPassword(v.Request.Context(), v.Session, hash, v.again())
}

// rightPassword verifies a password and returns the hash it was verified against.
func (s *Site) rightPassword(v *visit, given string) (hash string, err error) {
	ctx := v.Request.Context()
	if hash, err = s.Changes.PasswordHash(ctx, v.Person.Account); err != nil {
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

func (s *Site) proveByPasskey(v *visit) (string, error) {
	used, err := s.finishProof(v)
	if err != nil {
		return "", err
	}
	return s.Proofs.ConfirmByPasskey(v.Request.Context(), v.Session, used, v.again())
}
