package accountpages

import (
	"errors"
	"fmt"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
)

func owner(v *Visit) credential.PasskeyOwner {
	return credential.PasskeyOwner{Account: v.Person.Account, Email: v.Person.Email}
}

// beginProof returns the options for proving a passkey, for a form of passkey.js, or an empty
// string if the person has none. The challenge is valid until it is used or replaced.
func (p *Pages) beginProof(v *Visit) (options string, err error) {
	if !p.relyingParty.Possible() {
		return "", nil
	}
	ctx := v.ctx()
	has, err := p.People.Passkeys(ctx, v.Person.Account)
	if err != nil || len(has) == 0 {
		return "", err
	}
	options, challenge, err := p.relyingParty.BeginProof(owner(v), has)
	if err != nil {
		return "", err
	}
	return options, p.People.SaveChallenge(ctx, v.Session.ID, credential.PurposeProve, challenge)
}

// finishProof verifies the browser's response to its last challenge and returns the passkey. It
// returns credential.ErrPasskeyRejected if the response is invalid.
func (p *Pages) finishProof(v *Visit) (credential.Passkey, error) {
	ctx := v.ctx()
	challenge, err := p.takeChallenge(v, credential.PurposeProve)
	if err != nil {
		return credential.Passkey{}, err
	}
	has, err := p.People.Passkeys(ctx, v.Person.Account)
	if err != nil {
		return credential.Passkey{}, err
	}
	used, err := p.relyingParty.FinishProof(owner(v), has, challenge, v.PostForm("answer"), v.Now)
	if errors.Is(err, credential.ErrPasskeyRejected) {
		p.Errors.Log.InfoContext(ctx, "passkey rejected", "account_id", v.Person.Account, "error", err.Error())
	}
	return used, err
}

// takeChallenge removes and returns the browser's challenge. It returns
// credential.ErrPasskeyRejected if there is none.
func (p *Pages) takeChallenge(v *Visit, purpose string) (string, error) {
	if !p.relyingParty.Possible() {
		return "", credential.ErrPasskeyRejected
	}
	challenge, err := p.People.TakeChallenge(v.ctx(), v.Session.ID, purpose)
	if problem.Of(err).Code == problem.NotFound {
		err = fmt.Errorf("%w: %w", credential.ErrPasskeyRejected, err)
	}
	return challenge, err
}

type newPasskey struct {
	Options, Name string
}

func (p *Pages) passkeyForm(v *Visit) (pages.View, error) {
	elsewhere := pages.View{Redirect: securityPath}
	if !p.relyingParty.Possible() {
		return elsewhere, nil
	}
	ctx := v.ctx()
	has, err := p.People.Passkeys(ctx, v.Person.Account)
	if err != nil {
		return pages.View{}, err
	}
	if len(has) >= credential.MaxPasskeys {
		elsewhere.Notice = "You have as many passkeys as an account may have. Remove one first."
		return elsewhere, nil
	}
	options, challenge, err := p.relyingParty.BeginAdd(owner(v), has)
	if err != nil {
		return pages.View{}, err
	}
	name := v.PostForm("name")
	if name == "" {
		name = v.Client().Agent
	}
	return pages.View{
		Template: "security-passkey", Title: "Add a passkey", Data: newPasskey{options, name},
	}, p.People.SaveChallenge(ctx, v.Session.ID, credential.PurposeAdd, challenge)
}

func (p *Pages) addPasskey(v *Visit) (pages.View, error) {
	ctx := v.ctx()
	name, badName := api.Line(v.PostForm("name"), credential.MaxPasskeyName)
	challenge, err := p.takeChallenge(v, credential.PurposeAdd)
	var made credential.Passkey
	if err == nil {
		made, err = p.relyingParty.FinishAdd(owner(v), challenge, v.PostForm("answer"), v.Now)
	}
	if err == nil && badName == nil {
		made.Name = name
		err = p.People.AddPasskey(ctx, made)
	}
	var field, wrong string
	switch {
	case err == nil && badName == nil:
		return pages.View{
			Redirect: securityPath, Notice: "The passkey “" + name + "” was added. You can now use it instead of a code.",
		}, nil
	case err == nil:
		field, wrong = "name", "The name "+badName.Error()+"."
	case errors.Is(err, credential.ErrTooManyPasskeys): // the form leads to the page that says so
	case errors.Is(err, credential.ErrPasskeyRejected):
		p.Errors.Log.InfoContext(ctx, "passkey rejected", "account_id", v.Person.Account, "error", err.Error())
		wrong = "This passkey was not accepted. Try again."
	default:
		return pages.View{}, err
	}
	again, err := p.passkeyForm(v)
	if again.Redirect == "" {
		again = again.Wrong(field, wrong)
	}
	return again, err
}

func (p *Pages) removePasskey(v *Visit) (pages.View, error) {
	err := p.People.RemovePasskey(v.ctx(), v.Person.Account, v.PostForm("id"))
	return pages.View{Redirect: securityPath, Notice: "The passkey was removed."}, err
}
