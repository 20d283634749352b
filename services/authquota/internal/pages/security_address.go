package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/throttle"
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
	if wait, err := s.Tries.Try(ctx, throttle.MailTo(string(link.NewAddress), email), throttle.MailTo("of", v.Person.Account)); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	l := link.New(link.NewAddress, v.Person.Account, email, v.now)
	keep := link.New(link.OldAddress, v.Person.Account, v.Person.Email, v.now)
	err := s.Changes.AskNewAddress(ctx, l, keep,
		mail.Message{To: email, Template: "new-address", Data: map[string]string{"link": s.linkTo("/account/new-address", l)}},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": s.PublicURL + "/account/sign-in"}},
		mail.Message{To: v.Person.Email, Template: "address-change-asked", Data: map[string]string{
			"to_hint": mail.Masked(email), "cancel": s.linkTo("/account/old-address", keep),
		}})
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

// callOffAddress leaves the account its address, in place of the one that waits for its link.
func (s *Site) callOffAddress(v *visit) (view, error) {
	err := s.Changes.CallOffAddressChange(v.Request.Context(), v.Person.Account)
	return view{Redirect: security, Notice: "Your e-mail address stays as it is."}, err
}

// oldAddressForm is behind the link in the mail to the address until now.
func (s *Site) oldAddressForm(v *visit) (view, error) {
	_, err := s.Links.Link(v.Request.Context(), v.token(), link.OldAddress)
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Template: "link", Title: "Keep your address?", Data: linkForm{
		"/account/old-address", v.token(),
		"The account keeps its e-mail address. If it was not you who asked for another, choose a new password after this, which signs out every other browser.",
		"Keep the address",
	}}, err
}

func (s *Site) oldAddress(v *visit) (view, error) {
	err := s.Changes.KeepAddress(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Redirect: security, Notice: "Your e-mail address stays as it is."}, err
}
