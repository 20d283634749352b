package accountpages

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

type overview struct {
	NewAddress       people.Link // pending address change, if any
	PasskeysPossible bool
	MorePasskeys     bool
	Passkeys         []credential.Passkey
	Sessions         []people.Session
	This             string // session ID of this browser
	Events           []event
	Terms            Terms
}

func (p *Pages) security(v *Visit) (pages.View, error) {
	ctx := v.ctx()
	data := overview{
		PasskeysPossible: p.relyingParty.Possible(), This: v.Session.ID, Terms: Terms{
			Version: p.TermsVersion, Last: v.Person.Terms,
		},
	}
	var err error
	if data.NewAddress, err = p.People.AddressChange(ctx, v.Person.Account); err != nil {
		return pages.View{}, err
	}
	if data.Passkeys, err = p.People.Passkeys(ctx, v.Person.Account); err != nil {
		return pages.View{}, err
	}
	data.MorePasskeys = len(data.Passkeys) < credential.MaxPasskeys
	if data.Sessions, err = p.People.OpenSessions(ctx, v.Person.Account); err != nil {
		return pages.View{}, err
	}
	data.Events, err = p.recentEvents(v)
	return pages.View{Template: "security", Title: "Security", Data: data}, err
}

func (p *Pages) endSession(v *Visit) (pages.View, error) {
	err := p.People.EndSession(v.ctx(), v.Person.Account, v.PostForm("id"))
	return pages.View{Redirect: securityPath, Notice: "The browser was signed out."}, err
}

func (p *Pages) endSessions(v *Visit) (pages.View, error) {
	if err := p.People.EndSessions(v.ctx(), v.Person.Account); err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: "You are signed out everywhere."}, nil
}

type event struct {
	What string
	More string // factor and location
	By   string
	At   time.Time
}

const (
	shownEvents   = 20 // without failures
	failuresShown = 30 * 24 * time.Hour
)

func (p *Pages) recentEvents(v *Visit) (list []event, err error) {
	ctx := v.ctx()
	logged, err := p.People.Events(ctx, v.Person.Account, slices.Sorted(maps.Keys(people.Actions)), shownEvents)
	if err != nil {
		return nil, err
	}
	failed, err := p.People.Failures(ctx, v.Person.Account, slices.Sorted(maps.Keys(people.Failures)),
		v.Now.Add(-failuresShown))
	for _, e := range slices.Concat(failed, logged) {
		list = append(list, describe(e))
	}
	slices.SortStableFunc(list, func(a, b event) int { return b.At.Compare(a.At) })
	return list, err
}

func describe(e people.Event) event {
	var more []string
	for _, name := range []string{"factor", "with", "name", "version", "agent", "network"} {
		if text, ok := e.Detail[name].(string); ok && text != "" {
			more = append(more, text)
		}
	}
	by := "the operator"
	switch {
	case e.Own:
		by = "you"
	case e.Auto:
		by = "automatic"
	}
	if what, failed := people.Failures[e.Action]; failed {
		if e.Times > 1 {
			more = append(more, strconv.Itoa(e.Times)+" times in 30 days")
		}
		return event{what, strings.Join(more, ", "), "unknown", e.At} // without the secret, the person is unknown
	}
	return event{people.Actions[e.Action], strings.Join(more, ", "), by, e.At}
}

type closeView struct {
	Pays  bool       // has a plan, which will be cancelled
	Until *time.Time // end of the paid period
}

func (p *Pages) closeForm(v *Visit) (pages.View, error) {
	shown := closeView{Pays: v.Person.Pays(v.Now)}
	if paid := v.Person.PaidAt(v.Now); paid != nil && paid.Live(v.Now) {
		shown.Until = paid.PaidUntil
	}
	return pages.View{Template: "security-close", Title: "Close the account", Data: shown}, nil
}

// closeAccount permanently closes the account. Its keys are rejected from the next request on.
func (p *Pages) closeAccount(v *Visit) (pages.View, error) {
	again, _ := p.closeForm(v)
	if given, _ := addressOf(v); given != v.Person.Email {
		return again.Wrong("email", "This is not the email address of the account."), nil
	}
	err := p.People.CloseAccount(v.ctx(), v.Person.Account)
	if wrong := inputError(err); wrong != "" {
		return again.Wrong("", wrong), nil
	}
	notice, err := applied("Your account is closed. Requests with its keys are rejected from now on.", err)
	if err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: notice}, nil
}

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
	if wait, err := p.People.CountAttempt(ctx, people.MailsTo.Of(string(people.LinkNewAddress), email),
		people.MailsTo.Of("of", v.Person.Account)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	l := people.NewLink(people.LinkNewAddress, v.Person.Account, email, v.Now)
	keep := people.NewLink(people.LinkOldAddress, v.Person.Account, v.Person.Email, v.Now)
	err := p.People.RequestAddressChange(ctx, l, keep,
		mail.Message{
			To: email, Template: "new-address", Data: map[string]string{"link": p.linkTo("/account/new-address", l)},
		},
		mail.Message{To: email, Template: "already-have-account", Data: map[string]string{"link": p.PublicURL + signInPath}},
		mail.Message{To: v.Person.Email, Template: "address-change-asked", Data: map[string]string{
			"to_hint": mail.Masked(email), "cancel": p.linkTo("/account/old-address", keep),
		}})
	return pages.View{
		Redirect: securityPath, Notice: "We sent a mail to " + email +
			". Open the link in it within 24 hours. Until then, nothing changes.",
	}, err
}

// newAddressForm is behind the link. It does not require signing in, because the link may be opened
// on another device.
func (p *Pages) newAddressForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.ctx(), token(v), people.LinkNewAddress)
	return unlessGone(securityPath, pages.View{Template: "link", Title: "Confirm your new address", Data: linkForm{
		"/account/new-address", token(v),
		"You will sign in with " + l.Email +
			" and receive mails there. We notify the current address. If you did not request this, " +
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
		"The account keeps its email address. If you did not request the change, change your password afterwards, which " +
			"signs out every other browser.",
		"Keep address",
	}}, err)
}

func (p *Pages) oldAddress(v *Visit) (pages.View, error) {
	err := p.People.KeepAddress(v.ctx(), token(v))
	return unlessGone(securityPath, pages.View{Redirect: securityPath, Notice: "Your email address was not changed."}, err)
}
