package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/throttle"
	"opportunity.internal/services/authquota/internal/totp"
)

// addressOf is the address in a form, in the form in which it is kept, and whether it can be one.
func addressOf(v *visit) (string, bool) { return account.Email(v.PostForm("email")) }

func (s *Site) emailForm(v *visit) (view, error) {
	return view{Template: "security-email", Title: "Change your e-mail address", Data: v.PostForm("email")}, nil
}

// email sends a link to the new address. Whether somebody has that address is told to its owner alone.
func (s *Site) email(v *visit) (view, error) {
	again, _ := s.emailForm(v)
	email, valid := addressOf(v)
	switch {
	case !valid:
		again.Errors = []formError{errEmail}
		return again, nil
	case email == v.Person.Email:
		again.Errors = []formError{{"email", "This is your address already."}}
		return again, nil
	}
	ctx := v.Request.Context()
	if wait, err := s.Tries.Try(ctx, throttle.MailTo(email), throttle.MailTo(v.Person.Account)); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	l := link.New(link.NewAddress, v.Person.Account, email, v.now)
	err := s.Changes.AskNewAddress(ctx, l,
		mail.Message{To: email, Template: "new-address", Data: map[string]string{"link": s.linkTo("/account/new-address", l)}},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": s.PublicURL + "/account/sign-in"}})
	return view{Redirect: security, Notice: "We have written to " + email + ". Open the link in that mail within 24 hours; until then nothing changes."}, err
}

// newAddressForm is behind the link. Who opens it need not be signed in: it may be on another device.
func (s *Site) newAddressForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.NewAddress)
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Template: "link", Title: "Confirm your new address", Data: linkForm{
		"/account/new-address", v.token(),
		"From then on you sign in with " + l.Email + ", and mails go there. The address until now gets a notice. If you have not asked for this, " +
			"close this page: nothing has changed.",
		"Use this address",
	}}, err
}

func (s *Site) newAddress(v *visit) (view, error) {
	err := s.Changes.ChangeAddress(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Redirect: security, Notice: "Your e-mail address is changed."}, err
}

func (s *Site) passwordForm(*visit) (view, error) {
	return view{Template: "security-password", Title: "Change your password"}, nil
}

// password takes another one. The one until now is asked for again, however lately it was proven.
func (s *Site) password(v *visit) (view, error) {
	again, _ := s.passwordForm(v)
	ctx := v.Request.Context()
	given := v.PostForm("password")
	if err := password.Check(given, v.Person.Email); err != nil {
		again.Errors = []formError{{"password", err.Error()}}
		return again, nil
	}
	tried := []throttle.Subject{throttle.OfAccount(v.Person.Account), throttle.FromNetwork(v.address())}
	if wait, err := s.Tries.Try(ctx, tried...); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	before, err := s.rightPassword(v, v.PostForm("current"))
	if wrong := refusal(err); wrong != "" {
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
	secret, err := s.Changes.ChangePassword(ctx, v.Session, before, after, tried...)
	if err != nil {
		return view{}, err
	}
	v.renewed(secret)
	return view{Redirect: security, Notice: "Your password is changed, and every other browser is signed out."}, nil
}

// replaceForm shows a fresh seed, another each time: one that somebody saw before is worth nothing.
func (s *Site) replaceForm(v *visit) (view, error) {
	seed, err := s.Replacements.AnotherSeed(v.Request.Context(), v.Person.Account)
	if err != nil {
		return view{}, err
	}
	return replacePage(seed, v)
}

func replacePage(seed account.NewSeed, v *visit) (view, error) {
	form, err := newSeedForm(seed.Seed, v.Person.Email)
	return view{Template: "security-authenticator", Title: "Move to another authenticator app", Data: form}, err
}

// replace ends the old authenticator by the first code of the new one.
func (s *Site) replace(v *visit) (view, error) {
	ctx := v.Request.Context()
	seed, err := s.Replacements.WaitingSeed(ctx, v.Person.Account)
	if problem.Of(err).Code == problem.NotFound {
		return view{Redirect: security + "/authenticator"}, nil // used up, or the person signed in anew in between
	}
	if err != nil {
		return view{}, err
	}
	again, err := replacePage(seed, v)
	if err != nil {
		return view{}, err
	}
	factor := throttle.OfAccount(v.Person.Account)
	if wait, err := s.Tries.Try(ctx, factor); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	step, ok := totp.Step(seed.Seed, v.PostForm("code"), v.now)
	if !ok {
		again.Errors = []formError{{"code", refusal(errCode())}}
		return again, nil
	}
	secret, err := s.Replacements.ReplaceAuthenticator(ctx, v.Session, seed, step, factor)
	if wrong := refusal(err); wrong != "" {
		again.Errors = []formError{{"code", wrong}}
		return again, nil
	}
	if err != nil {
		return view{}, err
	}
	v.renewed(secret)
	return view{Redirect: security, Notice: "The new app is in use, and every other browser is signed out. The old one has ended."}, nil
}
