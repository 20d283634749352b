package pages

import (
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
)

const security = "/account/security"

// overview is the data of the security page.
type overview struct {
	NewAddress       link.Link // pending address change, if any
	PasskeysPossible bool
	MorePasskeys     bool
	Passkeys         []passkey.Passkey
	Sessions         []session.Session
	This             string // session ID of this browser
	Events           []event
	Terms            terms
}

func (s *Site) security(v *visit) (view, error) {
	ctx := v.Request.Context()
	data := overview{PasskeysPossible: s.passkeys.Possible(), This: v.Session.ID, Terms: s.terms(v)}
	var err error
	if data.NewAddress, err = s.Changes.AddressChange(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	if data.Passkeys, err = s.Passkeys.Passkeys(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	data.MorePasskeys = len(data.Passkeys) < passkey.MaxPasskeys
	if data.Sessions, err = s.Presence.OpenSessions(ctx, v.Person.Account); err != nil {
		return view{}, err
	}
	data.Events, err = s.recentEvents(v)
	return view{Template: "security", Title: "Security", Data: data}, err
}

// endSession signs another browser out.
func (s *Site) endSession(v *visit) (view, error) {
	id := v.PostForm("id")
	if !session.ValidID(id) {
		return view{}, problem.New(problem.NotFound, "This session does not exist.")
	}
	err := s.Sessions.EndSession(v.Request.Context(), v.Person.Account, id)
	return view{Redirect: security, Notice: "The browser was signed out."}, err
}

// endSessions signs every browser out, including this one.
func (s *Site) endSessions(v *visit) (view, error) {
	if err := s.Presence.EndSessions(v.Request.Context(), v.Person.Account); err != nil {
		return view{}, err
	}
	v.forget()
	return view{Redirect: "/account/sign-in", Notice: "You are signed out everywhere."}, nil
}

// closeView is the data of the page that confirms closing the account.
type closeView struct {
	Pays  bool       // has a plan, which will be cancelled
	Until *time.Time // end of the paid period
}

func (s *Site) closeForm(v *visit) (view, error) {
	shown := closeView{Pays: v.Person.Pays(v.now)}
	if paid := v.Person.PaidAt(v.now); paid != nil && paid.Live(v.now) {
		shown.Until = paid.PaidUntil
	}
	return view{Template: "security-close", Title: "Close the account", Data: shown}, nil
}

// closeAccount permanently closes the account. Its keys are rejected from the next request on.
func (s *Site) closeAccount(v *visit) (view, error) {
	again, _ := s.closeForm(v)
	if given, _ := addressOf(v); given != v.Person.Email {
		again.Errors = []formError{{"email", "This is not the e-mail address of the account."}}
		return again, nil
	}
	err := s.Closing.CloseAccount(v.Request.Context(), v.Person.Account)
	if wrong := inputError(err); wrong != "" {
		again.Errors = []formError{{"", wrong}}
		return again, nil
	}
	if err != nil {
		return view{}, err
	}
	v.forget()
	return view{Redirect: "/account/sign-in", Notice: s.applied(v, "Your account is closed. Requests with its keys are rejected from now on.")}, nil
}
