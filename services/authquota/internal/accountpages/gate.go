package accountpages

import (
	"net/http"
	"path"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// enter identifies the visitor and returns where to redirect first, if anywhere.
func (p *Pages) enter(v *Visit, level access) (elsewhere string, err error) {
	if level == open {
		return "", nil
	}
	back := p.back(v)
	if back == homePath || level == halfway {
		back = "" // home is the default, and a step of signing in cannot be resumed
	}
	secret := v.SessionSecret()
	if secret == "" {
		return pages.WithNext(signInPath, back), nil
	}
	v.Session, v.Person, err = p.People.Session(v.Request.Context(), secret)
	if problem.Of(err).Code == problem.NotFound { // keep the cookie, because the browser may have a newer one by now
		return pages.WithNext(signInPath, back), nil
	}
	if err == nil {
		err = p.Current(v.Request.Context(), v.Person.Epoch)
	}
	if err != nil {
		return "", err
	}
	switch full := v.full(); {
	case level == halfway && full:
		return homePath, nil
	case level == halfway || full && (level == signedIn || v.Session.Recent(v.Now)):
		return "", nil
	case full:
		return pages.WithNext(securityPath+"/confirm", back), nil
	case v.Person.AuthenticatorConfirmed:
		return pages.WithNext(signInPath+"/code", back), nil
	}
	return homePath + "/authenticator", nil
}

// full reports whether the person has proven both factors.
func (v *Visit) full() bool {
	return v.Session.Stage == people.Full && v.Person.AuthenticatorConfirmed
}

// back returns the page to continue to after proving a factor: the requested page or, because a
// form cannot be submitted again, the page with the form: at the same path or at the closest parent
// that can be opened.
func (p *Pages) back(v *Visit) string {
	if v.Request.Method == http.MethodGet || v.Request.Method == http.MethodHead {
		return v.Request.URL.RequestURI()
	}
	at, pattern := v.Request.URL.Path, v.FullPath()
	for at != homePath && !p.opens[pattern] {
		at, pattern = path.Dir(at), path.Dir(pattern)
	}
	return at
}
