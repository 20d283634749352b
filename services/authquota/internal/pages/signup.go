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

// addressForm is a form that asks for an e-mail address and whatever its page adds.
type addressForm struct{ Email, Next string }

var errEmail = formError{"email", "Enter an e-mail address, such as ada@example.org."}

func (s *Site) signUpForm(*visit) (view, error) {
	return view{Template: "sign-up", Title: "Create an account", Data: addressForm{}}, nil
}

// signUp sends a mail to the address and tells the same to everybody, whether or not the address has an account.
func (s *Site) signUp(v *visit) (view, error) {
	form, _ := s.signUpForm(v)
	return s.sendLink(v, form, link.Confirm, "/account/sign-up/sent", func(l link.Fresh) error {
		return s.SignUps.AskSignUp(v.Request.Context(), l,
			mail.Message{To: l.Email, Template: "confirm-address", Data: map[string]string{"link": s.linkTo("/account/confirm", l)}},
			mail.Message{To: l.Email, Template: "already-have-account", Data: map[string]string{"link": s.PublicURL + "/account/sign-in"}})
	})
}

// sendLink reads the address that form asks for and lets ask send a link to it, and leads to the page sent: also where the address
// has had enough mails, of which nobody is told.
func (s *Site) sendLink(v *visit, form view, purpose link.Purpose, sent string, ask func(link.Fresh) error) (view, error) {
	email, ok := account.Email(v.PostForm("email"))
	if !ok {
		form.Data, form.Errors = addressForm{Email: email}, []formError{errEmail}
		return form, nil
	}
	goes, err := s.mayMail(v, purpose, email)
	if err == nil && goes {
		err = ask(link.New(purpose, "", email, v.now))
	}
	return view{Redirect: sent}, err
}

func (s *Site) signUpSent(*visit) (view, error) {
	return view{Template: "sent", Title: "Check your e-mail", Data: "a link by which you choose a password. It works once and for 24 hours"}, nil
}

// linkTo is the address of a page with the secret of a link.
func (s *Site) linkTo(path string, l link.Fresh) string {
	return s.PublicURL + path + "?" + url.Values{"token": {l.Secret}}.Encode()
}

// token is the secret of the link that the person followed.
func (v *visit) token() string {
	if t := v.PostForm("token"); t != "" {
		return t
	}
	return v.Query("token")
}

// gone is the page of a link that does not work, with the page that gives another.
func gone(again string) view {
	return view{Template: "gone", Title: "This link does not work any more", Status: http.StatusGone, Data: again}
}

// passwordForm is a form that a link leads to.
type passwordForm struct{ Action, Token, Email, Button string }

// confirmForm shows the form behind a link. Only sending it uses the link up: programs that look into mails open links too.
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
		Data: passwordForm{"/account/confirm", v.token(), l.Email, "Create the account"},
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

// newPassword is the hash of the password in the form's field of that name, or what is wrong with it.
func newPassword(v *visit, email string) (hash string, wrong []formError, err error) {
	chosen := v.PostForm("password")
	if refused := password.Refusal(""); errors.As(password.Check(chosen, email), &refused) {
		return "", []formError{{"password", refused.Error()}}, nil
	}
	hash, err = password.Hash(v.Request.Context(), chosen)
	return hash, nil, err
}

// entry is the browser as one that comes in.
func (v *visit) entry() session.Entry {
	return session.Entry{Before: v.cookie(sessionCookie), Device: v.cookie(deviceCookie), Client: v.client()}
}

// admit gives the browser what it is known by from now on.
func (v *visit) admit(a session.Admitted) {
	if a.Session != "" {
		v.setCookie(sessionCookie, a.Session, 0)
	}
	if a.Device != "" {
		v.setCookie(deviceCookie, a.Device, deviceLife)
	}
}

// deviceLife is as long as browsers keep any cookie.
const deviceLife = 400 * 24 * time.Hour

// slower shows a form again to who must wait before it is looked at.
func slower(v *visit, again view, wait time.Duration) view {
	seconds := int(math.Ceil(wait.Seconds()))
	v.Header("Retry-After", strconv.Itoa(seconds))
	howLong := fmt.Sprintf("%d seconds", seconds)
	if seconds > 90 {
		howLong = fmt.Sprintf("%d minutes", (seconds+59)/60)
	}
	again.Status = http.StatusTooManyRequests
	again.Errors = []formError{{"", "There were too many tries. Wait " + howLong + ", then try again."}}
	return again
}
