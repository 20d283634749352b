package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

// overview is the data of the security page.
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
	ctx := v.Request.Context()
	data := overview{PasskeysPossible: p.relyingParty.Possible(), This: v.Session.ID, Terms: Terms{Version: p.TermsVersion, Last: v.Person.Terms}}
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

// endSession signs another browser out.
func (p *Pages) endSession(v *Visit) (pages.View, error) {
	id := v.PostForm("id")
	if !people.ValidSessionID(id) {
		return pages.View{}, problem.New(problem.NotFound, "This session does not exist.")
	}
	err := p.People.EndSession(v.Request.Context(), v.Person.Account, id)
	return pages.View{Redirect: securityPath, Notice: "The browser was signed out."}, err
}

// endSessions signs every browser out, including this one.
func (p *Pages) endSessions(v *Visit) (pages.View, error) {
	if err := p.People.EndSessions(v.Request.Context(), v.Person.Account); err != nil {
		return pages.View{}, err
	}
	v.Forget()
	return pages.View{Redirect: signInPath, Notice: "You are signed out everywhere."}, nil
}
