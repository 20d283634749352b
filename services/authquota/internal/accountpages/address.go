package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

func addressOf(v *Visit) (string, bool) { return people.Email(v.PostForm("email")) }

func (p *Pages) emailForm(v *Visit) (pages.View, error) {
	return pages.View{Template: "security-email", Title: "Change your email address", Data: v.PostForm("email")}, nil
}

// email sends a link to the new address. The page does not reveal whether another account has that
// address.
func (p *Pages) email(v *Visit) (pages.View, error) {
	again, _ := p.emailForm(v)
	email, valid := addressOf(v)
	switch {
	case !valid:
		return again.Wrong("email", noAddress), nil
	case email == v.Person.Email:
		return again.Wrong("email", "This is already your address."), nil
	}
	ctx := v.ctx()
	if wait, err := p.People.CountAttempt(ctx, people.MailsTo.Of(string(people.LinkNewAddress), email), people.MailsTo.Of("of", v.Person.Account)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	l := people.NewLink(people.LinkNewAddress, v.Person.Account, email, v.Now)
	keep := people.NewLink(people.LinkOldAddress, v.Person.Account, v.Person.Email, v.Now)
	err := p.People.RequestAddressChange(ctx, l, keep,
		mail.Message{To: email, Template: "new-address", Data: map[string]string{"link": p.linkTo("/account/new-address", l)}},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": p.PublicURL + signInPath}},
		mail.Message{To: v.Person.Email, Template: "address-change-asked", Data: map[string]string{
			"to_hint": mail.Masked(email), "cancel": p.linkTo("/account/old-address", keep),
		}})
	return pages.View{Redirect: securityPath, Notice: "We sent a mail to " + email + ". Open the link in it within 24 hours. Until then, nothing changes."}, err
}

// newAddressForm is behind the link. It does not require signing in, because the link may be opened
// on another device.
func (p *Pages) newAddressForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.ctx(), token(v), people.LinkNewAddress)
	return unlessGone(securityPath, pages.View{Template: "link", Title: "Confirm your new address", Data: linkForm{
		"/account/new-address", token(v),
		"You will sign in with " + l.Email + " and receive mails there. We notify the current address. If you did not request this, " +
			"close this page: nothing has changed.",
		"Use this address",
	}}, err)
}

func (p *Pages) newAddress(v *Visit) (pages.View, error) {
	err := p.People.ChangeAddress(v.ctx(), token(v))
	return unlessGone(securityPath, pages.View{Redirect: securityPath, Notice: "Your email address was changed."}, err)
}

func (p *Pages) cancelAddressChange(v *Visit) (pages.View, error) {
	err := p.People.CancelAddressChange(v.ctx(), v.Person.Account)
	return pages.View{Redirect: securityPath, Notice: "Your email address was not changed."}, err
}

func (p *Pages) oldAddressForm(v *Visit) (pages.View, error) {
	_, err := p.People.Link(v.ctx(), token(v), people.LinkOldAddress)
	return unlessGone(securityPath, pages.View{Template: "link", Title: "Keep your address?", Data: linkForm{
		"/account/old-address", token(v),
		"The account keeps its email address. If you did not request the change, change your password afterwards, which signs out every other browser.",
		"Keep address",
	}}, err)
}

func (p *Pages) oldAddress(v *Visit) (pages.View, error) {
	err := p.People.KeepAddress(v.ctx(), token(v))
	return unlessGone(securityPath, pages.View{Redirect: securityPath, Notice: "Your email address was not changed."}, err)
}
