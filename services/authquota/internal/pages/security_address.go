package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/throttle"
)

// addressOf returns the canonical form of the submitted address and whether it is valid.
func addressOf(v *visit) (string, bool) { return account.Email(v.PostForm("email")) }

func (s *Site) emailForm(v *visit) (view, error) {
	return view{Template: "security-email", Title: "Change your e-mail address", Data: v.PostForm("email")}, nil
}

// email sends a link to the new address. The page does not reveal whether another account has that address.
func (s *Site) email(v *visit) (view, error) {
	again, _ := s.emailForm(v)
	email, valid := addressOf(v)
	switch {
	case !valid:
		again.Errors = []formError{errEmail}
		return again, nil
	case email == v.Person.Email:
		again.Errors = []formError{{"email", "This is already your address."}}
		return again, nil
	}
	ctx := v.Request.Context()
	if wait, err := s.Tries.Try(ctx, throttle.MailTo(string(link.NewAddress), email), throttle.MailTo("of", v.Person.Account)); err != nil || wait > 0 {
		return slower(v, again, wait), err
	}
	l := link.New(link.NewAddress, v.Person.Account, email, v.now)
	keep := link.New(link.OldAddress, v.Person.Account, v.Person.Email, v.now)
	err := s.Changes.RequestAddressChange(ctx, l, keep,
		mail.Message{To: email, Template: "new-address", Data: map[string]string{"link": s.linkTo("/account/new-address", l)}},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": s.PublicURL + "/account/sign-in"}},
		mail.Message{To: v.Person.Email, Template: "address-change-asked", Data: map[string]string{
			"to_hint": mail.Masked(email), "cancel": s.linkTo("/account/old-address", keep),
		}})
	return view{Redirect: security, Notice: "We sent a mail to " + email + ". Open the link in it within 24 hours. Until then, nothing changes."}, err
}

// newAddressForm is behind the link. It does not require signing in, because the link may be opened on another device.
func (s *Site) newAddressForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.NewAddress)
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Template: "link", Title: "Confirm your new address", Data: linkForm{
		"/account/new-address", v.token(),
		"You will sign in with " + l.Email + " and receive mails there. We notify the current address. If you did not request this, " +
			"close this page: nothing has changed.",
		"Use this address",
	}}, err
}

func (s *Site) newAddress(v *visit) (view, error) {
	err := s.Changes.ChangeAddress(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Redirect: security, Notice: "Your e-mail address was changed."}, err
}

// cancelAddressChange cancels the pending address change.
func (s *Site) cancelAddressChange(v *visit) (view, error) {
	err := s.Changes.CancelAddressChange(v.Request.Context(), v.Person.Account)
	return view{Redirect: security, Notice: "Your e-mail address was not changed."}, err
}

// oldAddressForm is behind the link in the mail to the previous address.
func (s *Site) oldAddressForm(v *visit) (view, error) {
	_, err := s.Links.Link(v.Request.Context(), v.token(), link.OldAddress)
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Template: "link", Title: "Keep your address?", Data: linkForm{
		"/account/old-address", v.token(),
		"The account keeps its e-mail address. If you did not request the change, change your password afterwards, which signs out every other browser.",
		"Keep address",
	}}, err
}

func (s *Site) oldAddress(v *visit) (view, error) {
	err := s.Changes.KeepAddress(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone(security), nil
	}
	return view{Redirect: security, Notice: "Your e-mail address was not changed."}, err
}
