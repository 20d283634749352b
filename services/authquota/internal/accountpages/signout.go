package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

// signOut ends the browser's session, even a halfway one.
func (p *Pages) signOut(v *Visit) (pages.View, error) {
	out := pages.View{Redirect: signInPath, Notice: "You are signed out."}
	current, _, err := p.People.Session(v.Request.Context(), v.SessionSecret())
	if err != nil && problem.Of(err).Code != problem.NotFound {
		return out, err
	}
	v.Forget()
	if err != nil {
		return out, nil // it has ended already
	}
	err = p.People.EndSession(v.Request.Context(), current.Account, current.ID)
	if problem.Of(err).Code == problem.NotFound {
		err = nil // ended by a concurrent request
	}
	return out, err
}
