package accountpages

import (
	"context"
	"net/http"
	"path"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// Visit is a request to a handler.
type Visit struct {
	*gin.Context

	Person  people.Person  // zero if access is open
	Session people.Session // zero if access is open
	Now     time.Time

	kit *pages.Kit
}

const (
	sessionCookie = "__Host-session"
	deviceCookie  = "__Host-device" // a browser that has signed in before
)

// deviceLife is the maximum cookie lifetime of browsers.
const deviceLife = 400 * 24 * time.Hour

func (v *Visit) ctx() context.Context { return v.Request.Context() }

// Client describes the browser.
func (v *Visit) Client() people.Client { return people.ClientOf(v.Request.UserAgent(), v.Address()) }

// Address returns the browser's IP address, as reported by the gateway.
func (v *Visit) Address() string { return v.GetHeader(api.ClientHeader) }

func (v *Visit) network() string { return people.NetworkOf(v.Address()) }

// SessionSecret returns the secret of the browser's session, or an empty string.
func (v *Visit) SessionSecret() string { return pages.Cookie(v.Request, sessionCookie) }

// Entry returns the browser for signing in.
func (v *Visit) Entry() people.Entry {
	return people.Entry{Before: v.SessionSecret(), Device: pages.Cookie(v.Request, deviceCookie), Client: v.Client()}
}

// Admit sets the browser's new cookies.
func (v *Visit) Admit(a people.Admitted) {
	if a.Session != "" {
		v.Renew(a.Session)
	}
	if a.Device != "" {
		v.kit.SetCookie(v.Writer, deviceCookie, a.Device, deviceLife)
	}
}

// Renew sets the session cookie to the session's new secret.
func (v *Visit) Renew(secret string) { v.kit.SetCookie(v.Writer, sessionCookie, secret, 0) }

// Forget deletes the session cookie.
func (v *Visit) Forget() { v.kit.SetCookie(v.Writer, sessionCookie, "", -time.Second) }

// Next returns the page to continue to, from the query or the form, or the home page.
func (v *Visit) Next() string {
	to := v.PostForm("next")
	if to == "" {
		to = v.Query("next")
	}
	if !v.kit.Own(to) {
		return homePath
	}
	return to
}

// Onward returns the page to continue to, for a form or a link; empty for the home page.
func (v *Visit) Onward() string {
	if next := v.Next(); next != homePath {
		return next
	}
	return ""
}

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
	v.Session, v.Person, err = p.People.Session(v.ctx(), secret)
	if problem.Of(err).Code == problem.NotFound { // keep the cookie, because the browser may have a newer one by now
		return pages.WithNext(signInPath, back), nil
	}
	if err == nil {
		err = p.Epochs.Current(v.ctx(), v.Person.Epoch)
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

// secondStep returns the subjects of an attempt at the second factor. A known browser is counted
// separately, so that an attacker who has only the password cannot delay the person.
func (p *Pages) secondStep(v *Visit) ([]people.AttemptSubject, error) {
	device := people.HashSecret(pages.Cookie(v.Request, deviceCookie))
	known, err := p.People.KnownDevice(v.ctx(), v.Person.Account, device)
	if known || err != nil {
		return []people.AttemptSubject{people.AttemptsOfDevice.Of(device, v.Person.Account)}, err
	}
	return []people.AttemptSubject{
		people.AttemptsOnSecondStep.Of(v.network(), v.Person.Account), people.AttemptsOnAccount.Of(v.Person.Account),
		people.AttemptsFromNetwork.Of(v.network()),
	}, nil
}

// budgeted counts a form against the hourly budget of the account for acts that issue, mail or
// write. Revoking keys, ending sessions and closing the account have none: they must always work,
// and each needs something that was issued before.
func (p *Pages) budgeted(handle handler) handler {
	return func(v *Visit) (pages.View, error) {
		wait, err := p.People.CountAttempt(v.ctx(), people.ActsOf.Of(v.Person.Account))
		if err == nil && wait > 0 {
			err = problem.New(problem.MinuteLimitReached, "This account has made too many changes in an hour.").RetryIn(wait)
		}
		if err != nil {
			return pages.View{}, err
		}
		return handle(v)
	}
}

func inSession(v *Visit) people.AttemptSubject { return people.AttemptsInSession.Of(v.Session.ID) }
