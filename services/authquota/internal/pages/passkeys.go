package pages

import (
	"errors"
	"fmt"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/passkey"
)

func (v *visit) owner() passkey.Owner {
	return passkey.Owner{Account: v.Person.Account, Email: v.Person.Email}
}

// beginProof returns the options for proving a passkey, for a form of passkey.js, or an empty string if the person has none.
// The challenge is valid until it is used or replaced.
func (s *Site) beginProof(v *visit) (options string, err error) {
	if !s.passkeys.Possible() {
		return "", nil
	}
	ctx := v.Request.Context()
	has, err := s.Passkeys.Passkeys(ctx, v.Person.Account)
	if err != nil || len(has) == 0 {
		return "", err
	}
	options, challenge, err := s.passkeys.BeginProof(v.owner(), has)
	if err != nil {
		return "", err
	}
	return options, s.Challenges.SaveChallenge(ctx, v.Session.ID, passkey.Prove, challenge)
}

// finishProof verifies the browser's response to its last challenge and returns the passkey. It returns passkey.ErrRejected if
// the response is invalid.
func (s *Site) finishProof(v *visit) (passkey.Passkey, error) {
	ctx := v.Request.Context()
	challenge, err := s.takeChallenge(v, passkey.Prove)
	if err != nil {
		return passkey.Passkey{}, err
	}
	has, err := s.Passkeys.Passkeys(ctx, v.Person.Account)
	if err != nil {
		return passkey.Passkey{}, err
	}
	used, err := s.passkeys.FinishProof(v.owner(), has, challenge, v.PostForm("answer"), v.now)
	if errors.Is(err, passkey.ErrRejected) {
		s.Log.InfoContext(ctx, "passkey rejected", "account_id", v.Person.Account, "error", err.Error())
	}
	return used, err
}

// takeChallenge removes and returns the browser's challenge. It returns passkey.ErrRejected if there is none.
func (s *Site) takeChallenge(v *visit, purpose string) (string, error) {
	if !s.passkeys.Possible() {
		return "", passkey.ErrRejected
	}
	challenge, err := s.Challenges.TakeChallenge(v.Request.Context(), v.Session.ID, purpose)
	if problem.Of(err).Code == problem.NotFound {
		err = fmt.Errorf("%w: %w", passkey.ErrRejected, err)
	}
	return challenge, err
}

// passkeyStep verifies a passkey as the second step of signing in.
func (s *Site) passkeyStep(v *visit) (view, error) {
	ctx := v.Request.Context()
	tried, err := s.secondStep(v)
	if err != nil {
		return view{}, err
	}
	wait, err := s.Tries.Try(ctx, tried...)
	if err != nil {
		return view{}, err
	}
	if wait > 0 {
		again, err := s.codeForm(v)
		return slower(v, again, wait), err
	}
	used, err := s.finishProof(v)
	if err == nil {
		admitted, failed := s.Passkeys.SignInByPasskey(ctx, v.Session, v.entry(), used, tried...)
		if err = failed; err == nil {
			v.admit(admitted)
			return view{Redirect: v.next()}, nil
		}
	}
	wrong := inputError(err)
	if wrong == "" {
		return view{}, err
	}
	again, err := s.codeForm(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	again.Errors = []formError{{"", wrong}}
	return again, s.Passwords.SignInFailed(ctx, v.Person.Account, "passkey", v.client(), tried[0])
}

// newPasskey is the data of the form for adding a passkey.
type newPasskey struct {
	Options, Name string
}

func (s *Site) passkeyForm(v *visit) (view, error) {
	elsewhere := view{Redirect: security}
	if !s.passkeys.Possible() {
		return elsewhere, nil
	}
	ctx := v.Request.Context()
	has, err := s.Passkeys.Passkeys(ctx, v.Person.Account)
	if err != nil {
		return view{}, err
	}
	if len(has) >= passkey.MaxPasskeys {
		elsewhere.Notice = "You have as many passkeys as an account may have. Remove one first."
		return elsewhere, nil
	}
	options, challenge, err := s.passkeys.BeginAdd(v.owner(), has)
	if err != nil {
		return view{}, err
	}
	name := v.PostForm("name")
	if name == "" {
		name = v.client().Agent
	}
	return view{
		Template: "security-passkey", Title: "Add a passkey", Data: newPasskey{options, name},
	}, s.Challenges.SaveChallenge(ctx, v.Session.ID, passkey.Add, challenge)
}

func (s *Site) addPasskey(v *visit) (view, error) {
	ctx := v.Request.Context()
	name, valid := passkey.Name(v.PostForm("name"))
	challenge, err := s.takeChallenge(v, passkey.Add)
	var made passkey.Passkey
	if err == nil {
		made, err = s.passkeys.FinishAdd(v.owner(), challenge, v.PostForm("answer"), v.now)
	}
	if err == nil && valid {
		made.Name = name
		err = s.Passkeys.AddPasskey(ctx, made)
	}
	var wrong formError
	switch {
	case err == nil && valid:
		return view{Redirect: security, Notice: "The passkey “" + name + "” was added. You can now use it instead of a code."}, nil
	case err == nil:
		wrong = formError{"name", "Enter a name of at most 60 characters."}
	case errors.Is(err, passkey.ErrTooMany): // the form leads to the page that says so
	case errors.Is(err, passkey.ErrRejected):
		s.Log.InfoContext(ctx, "passkey rejected", "account_id", v.Person.Account, "error", err.Error())
		wrong = formError{"", "This passkey was not accepted. Try again."}
	default:
		return view{}, err
	}
	again, err := s.passkeyForm(v)
	if again.Redirect == "" {
		again.Errors = []formError{wrong}
	}
	return again, err
}

func (s *Site) removePasskey(v *visit) (view, error) {
	id := v.PostForm("id")
	if !passkey.ValidID(id) {
		return view{}, passkey.NotFound()
	}
	err := s.Passkeys.RemovePasskey(v.Request.Context(), v.Person.Account, id)
	return view{Redirect: security, Notice: "The passkey was removed."}, err
}
