package pages

import "opportunity.internal/pkg/problem"

// signOut ends the browser's session, even a halfway one.
func (s *Site) signOut(v *visit) (view, error) {
	out := view{Redirect: "/account/sign-in", Notice: "You are signed out."}
	current, _, err := s.Sessions.Session(v.Request.Context(), v.cookie(sessionCookie))
	if err != nil && problem.Of(err).Code != problem.NotFound {
		return out, err
	}
	v.forget()
	if err != nil {
		return out, nil // it has ended already
	}
	err = s.Sessions.EndSession(v.Request.Context(), current.Account, current.ID)
	if problem.Of(err).Code == problem.NotFound {
		err = nil // ended by a concurrent request
	}
	return out, err
}
