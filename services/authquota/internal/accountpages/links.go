package accountpages

import (
	"net/http"
	"net/url"
	"strings"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people"
)

// addressForm is the data of a form with an email address.
type addressForm struct{ Email, Next string }

const noAddress = "Enter an email address, such as ada@example.org."

// sendLink validates the submitted address, calls request to send a link to it, and redirects to
// the page sent. It does so too if the address has received too many mails.
func (p *Pages) sendLink(v *Visit, form pages.View, purpose people.LinkPurpose, sent string, request func(people.FreshLink) error) (pages.View, error) {
	email, ok := people.Email(v.PostForm("email"))
	if !ok {
		form.Data = addressForm{Email: email}
		return form.Wrong("email", noAddress), nil
	}
	goes, err := p.mayMail(v, purpose, email)
	if err == nil && goes {
		err = request(people.NewLink(purpose, "", email, v.Now))
	}
	return pages.View{Redirect: sent}, err
}

func (p *Pages) linkTo(path string, l people.FreshLink) string {
	return p.PublicURL + path + "?" + url.Values{"token": {l.Secret}}.Encode()
}

// token returns the secret of the link that was followed. A link that was copied from the source of
// a mail has an encoded "=", which is =3D, and line breaks after "=".
func token(v *Visit) string {
	if t := v.PostForm("token"); t != "" {
		return t
	}
	t := strings.NewReplacer("=", "", "\r", "", "\n", "", " ", "").Replace(v.Query("token"))
	if len(t) == len("3D")+secretLength {
		t = strings.TrimPrefix(t, "3D")
	}
	return t
}

// secretLength is the number of characters of a secret.
var secretLength = len(people.NewSecret())

// gone returns the page for an invalid link, with a link to request another one.
func gone(again string) pages.View {
	return pages.View{Template: "gone", Title: "This link has expired", Status: http.StatusGone, Data: again}
}

// unlessGone returns page and err. If err is not_found, it returns the page for an invalid link
// instead.
func unlessGone(again string, page pages.View, err error) (pages.View, error) {
	if problem.Of(err).Code == problem.NotFound {
		return gone(again), nil
	}
	return page, err
}

// sent returns the handler of a page that says which mail was sent.
func sent(what string) handler {
	return func(*Visit) (pages.View, error) {
		return pages.View{Template: "sent", Title: "Check your email", Data: what}, nil
	}
}

// linkForm is a page behind a link with a confirmation button. Opening the link has no effect,
// because mail scanners open links too.
type linkForm struct{ Action, Token, Text, Button string }
