package pages

import (
	"context"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/site"
)

// Sessions stores the sessions of browsers.
type Sessions interface {
	// Session returns the active session with this secret and its person; not_found if there is none.
	Session(ctx context.Context, secret string) (people.Session, people.Person, error)
	// EndSession ends a session of an account.
	EndSession(ctx context.Context, accountID, id string) error
	OpenSessions(ctx context.Context, accountID string) ([]people.Session, error)
	EndSessions(ctx context.Context, accountID string) error
}

// signOut ends the browser's session, even a halfway one.
func (p *Pages) signOut(v *site.Visit) (site.View, error) {
	out := site.View{Redirect: site.SignIn, Notice: "You are signed out."}
	current, _, err := p.Sessions.Session(v.Request.Context(), v.SessionSecret())
	if err != nil && problem.Of(err).Code != problem.NotFound {
		return out, err
	}
	v.Forget()
	if err != nil {
		return out, nil // it has ended already
	}
	err = p.Sessions.EndSession(v.Request.Context(), current.Account, current.ID)
	if problem.Of(err).Code == problem.NotFound {
		err = nil // ended by a concurrent request
	}
	return out, err
}
