package pages

import (
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// overview is the data of the security page.
type overview struct {
	NewAddress       people.Link // pending address change, if any
	PasskeysPossible bool
	MorePasskeys     bool
	Passkeys         []passkey.Passkey
	Sessions         []people.Session
	This             string // session ID of this browser
	Events           []event
	Terms            site.Terms
}

func (p *Pages) security(v *site.Visit) (site.View, error) {
	ctx := v.Request.Context()
	data := overview{PasskeysPossible: p.RelyingParty.Possible(), This: v.Session.ID, Terms: site.Terms{Version: p.TermsVersion, Last: v.Person.Terms}}
	var err error
	if data.NewAddress, err = p.AddressChanges.AddressChange(ctx, v.Person.Account); err != nil {
		return site.View{}, err
	}
	if data.Passkeys, err = p.Passkeys.Passkeys(ctx, v.Person.Account); err != nil {
		return site.View{}, err
	}
	data.MorePasskeys = len(data.Passkeys) < passkey.MaxPasskeys
	if data.Sessions, err = p.Sessions.OpenSessions(ctx, v.Person.Account); err != nil {
		return site.View{}, err
	}
	data.Events, err = p.recentEvents(v)
	return site.View{Template: "security", Title: "Security", Data: data}, err
}

// endSession signs another browser out.
func (p *Pages) endSession(v *site.Visit) (site.View, error) {
	id := v.PostForm("id")
	if !people.ValidSessionID(id) {
		return site.View{}, problem.New(problem.NotFound, "This session does not exist.")
	}
	err := p.Sessions.EndSession(v.Request.Context(), v.Person.Account, id)
	return site.View{Redirect: site.Security, Notice: "The browser was signed out."}, err
}

// endSessions signs every browser out, including this one.
func (p *Pages) endSessions(v *site.Visit) (site.View, error) {
	if err := p.Sessions.EndSessions(v.Request.Context(), v.Person.Account); err != nil {
		return site.View{}, err
	}
	v.Forget()
	return site.View{Redirect: site.SignIn, Notice: "You are signed out everywhere."}, nil
}
