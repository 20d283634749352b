package accountpages

import (
	"cmp"
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
	return pages.View{
		Template: "security-confirm", Title: "Confirm your identity", Data: proofForm{afterProof(v), options},
	}, err
}

func afterProof(v *Visit) string { return cmp.Or(v.Onward(), securityPath) }

func (p *Pages) prove(v *Visit) (pages.View, error) {
	if v.Session.Superseded { // the form was submitted twice; the browser has, or will get, the new secret
		return pages.View{Redirect: afterProof(v)}, nil
	}
	return p.guess(v, p.proveForm, []people.AttemptSubject{inSession(v)}, func() (string, pages.View, error) {
		by, factor, err := p.anyFactor(v)
		if err == nil {
			var secret string
			if secret, err = p.People.Confirm(v.ctx(), v.Session, by, inSession(v)); err == nil {
				v.Renew(secret)
			}
		}
		return factor, pages.View{Redirect: afterProof(v)}, err
	}, func(factor string) error { return p.People.ConfirmFailed(v.ctx(), v.Session, factor) })
}

// guess handles a form whose input could be guessed: it counts the attempt before it calls verify,
// which verifies a factor and makes the change that it permits. For wrong input, it calls failed
// and shows the form again, with another challenge for a passkey because the last one was used.
func (p *Pages) guess(v *Visit, form handler, tried []people.AttemptSubject,
	verify func() (factor string, done pages.View, err error), failed func(factor string) error) (pages.View, error) {
	wait, err := p.People.CountAttempt(v.ctx(), tried...)
	if err != nil {
		return pages.View{}, err
	}
	if wait > 0 {
		again, err := form(v)
		return again.TooMany(wait), err
	}
	factor, done, err := verify()
	wrong := inputError(err)
	if wrong == "" {
		return done, err
	}
	again, err := form(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	field := factor
	if factor == passkeyFactor {
		field = "" // sent by the script
	}
	return again.Wrong(field, wrong), failed(factor)
}

// The factors, by the field of the form.
const (
	codeFactor     = "code"
	passkeyFactor  = "passkey"
	passwordFactor = "password"
)

// secondFactor verifies the passkey or the code of a form. For wrong input, the error has an
// inputError.
func (p *Pages) secondFactor(v *Visit) (by people.Proof, factor string, err error) {
	if v.PostForm("answer") != "" {
		used, err := p.finishProof(v)
		return people.ByPasskey(used), passkeyFactor, err
	}
	given := v.PostForm("code")
	if people.IsRecoveryCode(given) {
		return people.ByRecoveryCode(people.HashRecoveryCode(given)), codeFactor, nil
	}
	seed, err := p.People.Seed(v.ctx(), v.Person.Account)
	if err != nil {
		return by, codeFactor, err
	}
	step, ok := credential.CodeStep(seed, given, v.Now)
	if !ok {
		err = problem.New(problem.InvalidParameter, "The code is wrong. Enter the one that the app shows now.")
	}
	return people.ByCode(step), codeFactor, err
}

// anyFactor is secondFactor for a form that also accepts the password, but no recovery code.
func (p *Pages) anyFactor(v *Visit) (by people.Proof, factor string, err error) {
	switch {
	case v.PostForm("answer") == "" && v.PostForm("password") != "":
		hash, err := p.rightPassword(v, v.PostForm("password"))
		return people.ByPassword(hash), passwordFactor, err
	case people.IsRecoveryCode(v.PostForm("code")):
		return by, codeFactor, problem.New(problem.InvalidParameter,
			"Recovery codes work only at sign-in. Use a code from the app or your password.")
	}
	return p.secondFactor(v)
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
