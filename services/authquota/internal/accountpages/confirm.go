package accountpages

import (
	"errors"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

type proofForm struct {
	Next    string
	Options string // WebAuthn options; empty if passkeys are not possible
}

func (p *Pages) proveForm(v *Visit) (pages.View, error) {
	options, err := p.beginProof(v)
	next := v.Next()
	if next == homePath {
		next = securityPath
	}
	return pages.View{Template: "security-confirm", Title: "Confirm your identity", Data: proofForm{next, options}}, err
}

func (p *Pages) prove(v *Visit) (pages.View, error) {
	ctx := v.ctx()
	next := v.Next()
	if next == homePath {
		next = securityPath
	}
	if v.Session.Superseded { // the form was submitted twice; the browser has, or will get, the new secret
		return pages.View{Redirect: next}, nil
	}
	factor, by := "code", p.proveByCode
	switch {
	case v.PostForm("answer") != "":
		factor, by = "", p.proveByPasskey // no field: sent by the script
	case v.PostForm("password") != "":
		factor, by = "password", p.proveByPassword
	}
	wait, err := p.People.CountAttempt(ctx, inSession(v))
	if err != nil {
		return pages.View{}, err
	}
	if wait > 0 {
		again, err := p.proveForm(v)
		return again.TooMany(wait), err
	}
	secret, err := by(v)
	if wrong := inputError(err); wrong != "" {
		again, err := p.proveForm(v) // with a new challenge, because the last one was used
		again = again.Wrong(factor, wrong)
		if err != nil {
			return again, err
		}
		return again, p.People.ConfirmFailed(ctx, v.Session,
			map[string]string{"": "passkey", "code": "authenticator", "password": "password"}[factor])
	}
	if err != nil {
		return pages.View{}, err
	}
	v.Renew(secret)
	return pages.View{Redirect: next}, nil
}

// inputError returns the message for wrong input, or an empty string for any other error.
func inputError(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, credential.ErrPasskeyRejected):
		return "This passkey was not accepted. Try again, or use another way."
	case problem.Of(err).Code == problem.InvalidParameter:
		return problem.Of(err).Text()
	}
	return ""
}

func (p *Pages) proveByCode(v *Visit) (string, error) {
	ctx := v.ctx()
	seed, err := p.People.Seed(ctx, v.Person.Account)
	if err != nil {
		return "", err
	}
	given := v.PostForm("code")
	step, ok := credential.CodeStep(seed, given, v.Now)
	switch {
	case people.IsRecoveryCode(given):
		return "", problem.New(problem.InvalidParameter,
			"Recovery codes work only at sign-in. Use a code from the app or your password.")
	case !ok:
		return "", errCode()
	}
	return p.People.ConfirmByCode(ctx, v.Session, step, inSession(v))
}

func (p *Pages) proveByPassword(v *Visit) (string, error) {
	hash, err := p.rightPassword(v, v.PostForm("password"))
	if err != nil {
		return "", err
	}
	return p.People.ConfirmByPassword(v.ctx(), v.Session, hash, inSession(v))
}

func (p *Pages) proveByPasskey(v *Visit) (string, error) {
	used, err := p.finishProof(v)
	if err != nil {
		return "", err
	}
	return p.People.ConfirmByPasskey(v.ctx(), v.Session, used, inSession(v))
}
