package accountpages

import (
	"time"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

type overview struct {
	NewAddress       people.Link // pending address change, if any
	PasskeysPossible bool
	MorePasskeys     bool
	Passkeys         []credential.Passkey
	Sessions         []people.Session
	This             string // session ID of this browser
	Events           []people.Event
	Terms            Terms
}

func (p *Pages) security(v *Visit) (pages.View, error) {
	ctx := v.ctx()
	data := overview{
		PasskeysPossible: p.relyingParty.Possible(), This: v.Session.ID, Terms: p.terms(v),
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
	data.Events, err = p.People.Events(ctx, v.Person.Account, shownEvents)
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

const shownEvents = 20 // without failures

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

// keepAuthenticator handles the button on every page while the waiting period lasts.
func (p *Pages) keepAuthenticator(v *Visit) (pages.View, error) {
	err := p.People.KeepAuthenticator(v.ctx(), v.Person.Account)
	return pages.View{
		Redirect: securityPath,
		Notice:   "The authenticator stays. If you did not report it lost, change your password: someone else knows it.",
	}, err
}
