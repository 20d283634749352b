package pages

import (
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
)

const security = "/account/security"

const shownEvents = 20

// overview is what the page of an account's security shows.
type overview struct {
	NewAddress       link.Link // the change that waits, if one does
	PasskeysPossible bool
	MorePasskeys     bool
	Passkeys         []passkey.Passkey
	Sessions         []session.Session
	This             string // id of this browser's
	Events           []event
}

func (s *Site) security(v *visit) (view, error) {
	ctx := v.Request.Context()
	data := overview{PasskeysPossible: s.passkeys.Possible(), This: v.Session.ID}
	var err error
	if data.NewAddress, err = s.Changes.AddressChange(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	if data.Passkeys, err = s.Passkeys.Passkeys(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	data.MorePasskeys = len(data.Passkeys) < passkey.Most
	if data.Sessions, err = s.Presence.OpenSessions(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	found, err := s.Events.Events(ctx, v.Person.Account, told(), shownEvents)
	for _, e := range found {
		data.Events = append(data.Events, tell(e))
	}
	return view{Template: "security", Title: "Security", Data: data}, err
}

// endSession signs another browser out.
func (s *Site) endSession(v *visit) (view, error) {
	err := s.Sessions.EndSession(v.Request.Context(), v.Person.Account, v.PostForm("id"))
	return view{Redirect: security, Notice: "That browser is signed out."}, err
}

// endSessions signs every browser out, this one too.
func (s *Site) endSessions(v *visit) (view, error) {
	if err := s.Presence.EndSessions(v.Request.Context(), v.Person.Account); err != nil {
		return view{}, err
	}
	v.forget()
	return view{Redirect: "/account/sign-in", Notice: "You are signed out everywhere."}, nil
}

func (s *Site) closeForm(*visit) (view, error) {
	return view{Template: "security-close", Title: "Close the account"}, nil
}

// closeAccount ends the account for good. Its keys are refused from the next call on.
func (s *Site) closeAccount(v *visit) (view, error) {
	again, _ := s.closeForm(v)
	if given, _ := addressOf(v); given != v.Person.Email {
		again.Errors = []formError{{"email", "This is not the e-mail address of the account."}}
		return again, nil
	}
	if err := s.Closing.CloseAccount(v.Request.Context(), v.Person.Account); err != nil {
		return view{}, err
	}
	v.forget()
	return view{Redirect: "/account/sign-in", Notice: s.said(v, "Your account is closed, and its keys are refused from now on.")}, nil
}
