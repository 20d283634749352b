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

// askProof is what this browser is asked to prove a passkey, for a form of passkey.js; empty where there is none to prove. It counts
// until it is answered, or another is asked.
func (s *Site) askProof(v *visit) (options string, err error) {
	if !s.passkeys.Possible() {
		return "", nil
	}
	ctx := v.Request.Context()
	has, err := s.Passkeys.Passkeys(ctx, v.Person.Account)
	if err != nil || len(has) == 0 {
		return "", err
	}
	options, kept, err := s.passkeys.AskProof(v.owner(), has)
	if err != nil {
		return "", err
	}
	return options, s.Challenges.KeepChallenge(ctx, v.Session.ID, passkey.Prove, kept)
}

// proven is the passkey that answered what this browser was asked last; passkey.ErrRefused where it is not right.
func (s *Site) proven(v *visit) (passkey.Passkey, error) {
	ctx := v.Request.Context()
	kept, err := s.take(v, passkey.Prove)
	if err != nil {
		return passkey.Passkey{}, err
	}
	has, err := s.Passkeys.Passkeys(ctx, v.Person.Account)
	if err != nil {
		return passkey.Passkey{}, err
	}
	used, err := s.passkeys.Proven(v.owner(), has, kept, v.PostForm("answer"), v.now)
	if errors.Is(err, passkey.ErrRefused) {
		s.Log.InfoContext(ctx, "passkey refused", "account", v.Person.Account, "error", err.Error())
	}
	return used, err
}

// take takes away what this browser was asked. Whoever was asked nothing has no answer that could be right.
func (s *Site) take(v *visit, purpose string) (string, error) {
	if !s.passkeys.Possible() {
		return "", passkey.ErrRefused
	}
	kept, err := s.Challenges.TakeChallenge(v.Request.Context(), v.Session.ID, purpose)
	if problem.Of(err).Code == problem.NotFound {
		err = fmt.Errorf("%w: %w", passkey.ErrRefused, err)
	}
	return kept, err
}

// passkeyStep takes a passkey as the second step of signing in.
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
	used, err := s.proven(v)
	if err == nil {
		admitted, failed := s.Passkeys.SignInByPasskey(ctx, v.Session, v.entry(), used, tried...)
		if err = failed; err == nil {
			v.admit(admitted)
			return view{Redirect: v.next()}, nil
		}
	}
	wrong := refusal(err)
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

// newPasskey asks for one.
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
	if len(has) >= passkey.Most {
		elsewhere.Notice = "You have as many passkeys as an account may have. Remove one first."
		return elsewhere, nil
	}
	options, kept, err := s.passkeys.AskNew(v.owner(), has)
	if err != nil {
		return view{}, err
	}
	name := v.PostForm("name")
	if name == "" {
		name = v.client().Agent
	}
	return view{
		Template: "security-passkey", Title: "Add a passkey", Data: newPasskey{options, name},
	}, s.Challenges.KeepChallenge(ctx, v.Session.ID, passkey.Add, kept)
}

func (s *Site) addPasskey(v *visit) (view, error) {
	ctx := v.Request.Context()
	name, valid := passkey.Name(v.PostForm("name"))
	kept, err := s.take(v, passkey.Add)
	var made passkey.Passkey
	if err == nil {
		made, err = s.passkeys.Added(v.owner(), kept, v.PostForm("answer"), v.now)
	}
	if err == nil && valid {
		made.Name = name
		err = s.Passkeys.AddPasskey(ctx, made)
	}
	var wrong formError
	switch {
	case err == nil && valid:
		return view{Redirect: security, Notice: "The passkey “" + name + "” was added. From now on it can take the place of the code."}, nil
	case err == nil:
		wrong = formError{"name", "Give it a name of at most 60 characters."}
	case errors.Is(err, passkey.ErrTooMany): // the form leads to the page that says so
	case errors.Is(err, passkey.ErrRefused):
		s.Log.InfoContext(ctx, "passkey refused", "account", v.Person.Account, "error", err.Error())
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
	if !passkey.Known(id) {
		return view{}, passkey.NotFound()
	}
	err := s.Passkeys.RemovePasskey(v.Request.Context(), v.Person.Account, id)
	return view{Redirect: security, Notice: "The passkey was removed."}, err
}
