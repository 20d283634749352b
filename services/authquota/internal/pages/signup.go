package pages

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/password"
	"opportunity.internal/services/authquota/internal/session"
)

// addressForm is the data of a form with an e-mail address.
type addressForm struct{ Email, Next string }

var errEmail = formError{"email", "Enter an e-mail address, such as ada@example.org."}

func (s *Site) signUpForm(*visit) (view, error) {
	return view{Template: "sign-up", Title: "Create an account", Data: addressForm{}}, nil
}

// signUp sends a mail to the address. The page does not reveal whether the address has an account.
func (s *Site) signUp(v *visit) (view, error) {
	form, _ := s.signUpForm(v)
	return s.sendLink(v, form, link.Confirm, "/account/sign-up/sent", func(l link.Fresh) error {
		return s.SignUps.RequestSignUp(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "confirm-address", Data: map[string]string{"link": s.linkTo("/account/confirm", l)}},
			mail.Message{To: l.Email, Template: "already-have-account", Data: map[string]string{"link": s.PublicURL + "/account/sign-in"}})
	})
}

// sendLink validates the address in the form, calls request to send a link to it, and redirects to the page sent. It does so
// too if the address has received too many mails.
func (s *Site) sendLink(v *visit, form view, purpose link.Purpose, sent string, request func(link.Fresh) error) (view, error) {
	email, ok := account.Email(v.PostForm("email"))
	if !ok {
		form.Data, form.Errors = addressForm{Email: email}, []formError{errEmail}
		return form, nil
	}
	goes, err := s.mayMail(v, purpose, email)
	if err == nil && goes {
		err = request(link.New(purpose, "", email, v.now))
	}
	return view{Redirect: sent}, err
}

func (s *Site) signUpSent(*visit) (view, error) {
	return view{Template: "sent", Title: "Check your e-mail", Data: "a link to choose a password. It works once, for 24 hours"}, nil
}

// linkTo returns the URL of a page with the secret of a link.
func (s *Site) linkTo(path string, l link.Fresh) string {
	return s.PublicURL + path + "?" + url.Values{"token": {l.Secret}}.Encode()
}

// token returns the secret of the link that was followed.
func (v *visit) token() string {
	if t := v.PostForm("token"); t != "" {
		return t
	}
	return v.Query("token")
}

// gone returns the page for an invalid link, with a link to request another one.
func gone(again string) view {
	return view{Template: "gone", Title: "This link has expired", Status: http.StatusGone, Data: again}
}

// passwordForm is the data of a form for a new password.
type passwordForm struct{ Action, Token, Email, Button string }

// confirmForm shows the form behind a link. Only submitting it uses the link, because mail scanners open links too.
func (s *Site) confirmForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.Confirm)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	if err != nil {
		return view{}, err
	}
	if id, _, err := s.Passwords.Credentials(v.Request.Context(), l.Email); err != nil || id != "" { // by another link to the same address
		return gone("/account/sign-in"), err
	}
	return view{
		Template: "password", Title: "Choose a password",
		Data: passwordForm{"/account/confirm", v.token(), l.Email, "Create account"},
	}, nil
}

func (s *Site) confirm(v *visit) (view, error) {
	again, err := s.confirmForm(v)
	form, ok := again.Data.(passwordForm)
	if err != nil || !ok {
		return again, err
	}
	hash, wrong, err := newPassword(v, form.Email)
	if err != nil || wrong != nil {
		again.Errors = wrong
		return again, err
	}
	admitted, err := s.SignUps.SignUp(v.Request.Context(), form.Token, hash, v.entry())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	v.admit(admitted)
	return view{Redirect: "/account/authenticator"}, err
}

// newPassword returns the hash of the submitted password, or the form errors.
func newPassword(v *visit, email string) (hash string, wrong []formError, err error) {
	chosen := v.PostForm("password")
	if refused := password.Rejection(""); errors.As(password.Check(chosen, email), &refused) {
		return "", []formError{{"password", refused.Error()}}, nil
	}
	hash, err = password.Hash(v.Request.Context(), chosen)
	return hash, nil, err
}

// entry returns the browser for signing in.
func (v *visit) entry() session.Entry {
	return session.Entry{Before: v.cookie(sessionCookie), Device: v.cookie(deviceCookie), Client: v.client()}
}

// admit sets the browser's new cookies.
func (v *visit) admit(a session.Admitted) {
	if a.Session != "" {
		v.setCookie(sessionCookie, a.Session, 0)
	}
	if a.Device != "" {
		v.setCookie(deviceCookie, a.Device, deviceLife)
	}
}

// deviceLife is the maximum cookie lifetime of browsers.
const deviceLife = 400 * 24 * time.Hour

// slower shows the form again with the delay before the next attempt.
func slower(v *visit, again view, wait time.Duration) view {
	seconds := int(math.Ceil(wait.Seconds()))
	v.Header("Retry-After", strconv.Itoa(seconds))
	howLong := fmt.Sprintf("%d seconds", seconds)
	if seconds > 90 {
		howLong = fmt.Sprintf("%d minutes", (seconds+59)/60)
	}
	again.Status = http.StatusTooManyRequests
	again.Errors = []formError{{"", "Too many attempts. Wait " + howLong + ", then try again."}}
	return again
}
