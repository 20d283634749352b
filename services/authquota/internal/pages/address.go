package pages

import (
	"context"

	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// AddressChanges changes the address. Each change sends its mails and writes the audit log.
type AddressChanges interface {
	RequestAddressChange(ctx context.Context, l, keep people.FreshLink, fresh, known, notice mail.Message) error
	// AddressChange returns the pending change, or the zero Link.
	AddressChange(ctx context.Context, accountID string) (people.Link, error)
	CancelAddressChange(ctx context.Context, accountID string) error
}

// AddressLinks uses the two links of an address change.
type AddressLinks interface {
	ChangeAddress(ctx context.Context, secret string) error
	KeepAddress(ctx context.Context, secret string) error
}

// addressOf returns the canonical form of the submitted address and whether it is valid.
func addressOf(v *site.Visit) (string, bool) { return people.Email(v.PostForm("email")) }

func (p *Pages) emailForm(v *site.Visit) (site.View, error) {
	return site.View{Template: "security-email", Title: "Change your e-mail address", Data: v.PostForm("email")}, nil
}

// email sends a link to the new address. The page does not reveal whether another account has that address.
func (p *Pages) email(v *site.Visit) (site.View, error) {
	again, _ := p.emailForm(v)
	email, valid := addressOf(v)
	switch {
	case !valid:
		return again.Wrong("email", noAddress), nil
	case email == v.Person.Email:
		return again.Wrong("email", "This is already your address."), nil
	}
	ctx := v.Request.Context()
	if wait, err := p.Attempts.CountAttempt(ctx, people.MailsTo(string(people.LinkNewAddress), email), people.MailsTo("of", v.Person.Account)); err != nil || wait > 0 {
		return site.TooMany(v, again, wait), err
	}
	l := people.NewLink(people.LinkNewAddress, v.Person.Account, email, v.Now)
	keep := people.NewLink(people.LinkOldAddress, v.Person.Account, v.Person.Email, v.Now)
	err := p.AddressChanges.RequestAddressChange(ctx, l, keep,
		mail.Message{To: email, Template: "new-address", Data: map[string]string{"link": p.linkTo("/account/new-address", l)}},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": p.PublicURL + site.SignIn}},
		mail.Message{To: v.Person.Email, Template: "address-change-asked", Data: map[string]string{
			"to_hint": mail.Masked(email), "cancel": p.linkTo("/account/old-address", keep),
		}})
	return site.View{Redirect: site.Security, Notice: "We sent a mail to " + email + ". Open the link in it within 24 hours. Until then, nothing changes."}, err
}

// newAddressForm is behind the link. It does not require signing in, because the link may be opened on another device.
func (p *Pages) newAddressForm(v *site.Visit) (site.View, error) {
	l, err := p.Links.Link(v.Request.Context(), token(v), people.LinkNewAddress)
	return unlessGone(site.Security, site.View{Template: "link", Title: "Confirm your new address", Data: linkForm{
		"/account/new-address", token(v),
		"You will sign in with " + l.Email + " and receive mails there. We notify the current address. If you did not request this, " +
			"close this page: nothing has changed.",
		"Use this address",
	}}, err)
}

func (p *Pages) newAddress(v *site.Visit) (site.View, error) {
	err := p.AddressLinks.ChangeAddress(v.Request.Context(), token(v))
	return unlessGone(site.Security, site.View{Redirect: site.Security, Notice: "Your e-mail address was changed."}, err)
}

// cancelAddressChange cancels the pending address change.
func (p *Pages) cancelAddressChange(v *site.Visit) (site.View, error) {
	err := p.AddressChanges.CancelAddressChange(v.Request.Context(), v.Person.Account)
	return site.View{Redirect: site.Security, Notice: "Your e-mail address was not changed."}, err
}

// oldAddressForm is behind the link in the mail to the previous address.
func (p *Pages) oldAddressForm(v *site.Visit) (site.View, error) {
	_, err := p.Links.Link(v.Request.Context(), token(v), people.LinkOldAddress)
	return unlessGone(site.Security, site.View{Template: "link", Title: "Keep your address?", Data: linkForm{
		"/account/old-address", token(v),
		"The account keeps its e-mail address. If you did not request the change, change your password afterwards, which signs out every other browser.",
		"Keep address",
	}}, err)
}

func (p *Pages) oldAddress(v *site.Visit) (site.View, error) {
	err := p.AddressLinks.KeepAddress(v.Request.Context(), token(v))
	return unlessGone(site.Security, site.View{Redirect: site.Security, Notice: "Your e-mail address was not changed."}, err)
}
