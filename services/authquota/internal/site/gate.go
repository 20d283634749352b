package site

import (
	"net/http"
	"path"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// enter identifies the visitor and returns where to redirect first, if anywhere.
func (s *Site) enter(v *Visit, level Access) (elsewhere string, err error) {
	if level == Open {
		return "", nil
	}
	back := s.back(v)
	if back == Home || level == Halfway {
		back = "" // home is the default, and a step of signing in cannot be resumed
	}
	secret := v.SessionSecret()
	if secret == "" {
		return WithNext(SignIn, back), nil
	}
	v.Session, v.Person, err = s.Sessions.Session(v.Request.Context(), secret)
	if problem.Of(err).Code == problem.NotFound { // keep the cookie, because the browser may have a newer one by now
		return WithNext(SignIn, back), nil
	}
	if err != nil {
		return "", err
	}
	switch full := v.full(); {
	case level == Halfway && full:
		return Home, nil
	case level == Halfway || full && (level == SignedIn || v.Session.Recent(v.Now)):
		return "", nil
	case full:
		return WithNext(Security+"/confirm", back), nil
	case v.Person.AuthenticatorConfirmed:
		return WithNext(SignIn+"/code", back), nil
	}
	return Home + "/authenticator", nil
}

// full reports whether the person has proven both factors.
func (v *Visit) full() bool {
	return v.Session.Stage == people.Full && v.Person.AuthenticatorConfirmed
}

// back returns the page to continue to after proving a factor: the requested page or, because a form cannot be submitted again,
// the page with the form: at the same path or at the closest parent that can be opened.
func (s *Site) back(v *Visit) string {
	if v.Request.Method == http.MethodGet || v.Request.Method == http.MethodHead {
		return v.Request.URL.RequestURI()
	}
	at, pattern := v.Request.URL.Path, v.FullPath()
	for at != Home && !s.opens[pattern] {
		at, pattern = path.Dir(at), path.Dir(pattern)
	}
	return at
}
