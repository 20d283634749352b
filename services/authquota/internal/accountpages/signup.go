package accountpages

import (
	"hash/maphash"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

func (p *Pages) signUpForm(*Visit) (pages.View, error) {
	return pages.View{Template: "sign-up", Title: "Create an account", Data: addressForm{}}, nil
}

// signUp sends a mail to the address. The page does not reveal whether the address has an account.
func (p *Pages) signUp(v *Visit) (pages.View, error) {
	form, _ := p.signUpForm(v)
	return p.sendLink(v, form, people.LinkConfirm, "/account/sign-up/sent", func(l people.FreshLink) error {
		return p.People.RequestSignUp(v.ctx(), l,
			mail.Message{
				To: l.Email, Template: "confirm-address", Data: map[string]string{"link": p.linkTo("/account/confirm", l)},
			},
			mail.Message{
				To: l.Email, Template: "already-have-account", Data: map[string]string{"link": p.PublicURL + signInPath},
			})
	})
}

// confirmForm shows the form behind a link. Only submitting it uses the link, because mail scanners
// open links too.
func (p *Pages) confirmForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.ctx(), token(v), people.LinkConfirm)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	// by another link to the same address
	if id, _, err := p.People.Credentials(v.ctx(), l.Email); err != nil || id != "" {
		return gone(signInPath), err
	}
	return pages.View{
		Template: "password", Title: "Choose a password",
		Data: passwordForm{"/account/confirm", token(v), l.Email, "Create account"},
	}, nil
}

func (p *Pages) confirm(v *Visit) (pages.View, error) {
	again, err := p.confirmForm(v)
	form, ok := again.Data.(passwordForm)
	if err != nil || !ok {
		return again, err
	}
	hash, wrong, err := newPassword(v, form.Email)
	switch {
	case err != nil:
		return pages.View{}, err
	case wrong != "":
		return again.Wrong("password", wrong), nil
	}
	admitted, err := p.People.SignUp(v.ctx(), form.Token, hash, v.Entry())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-up"), nil
	}
	v.Admit(admitted)
	return pages.View{Redirect: "/account/authenticator"}, err
}

type addressForm struct{ Email, Next string }

const noAddress = "Enter an email address, such as ada@example.org."

// sendLink validates the submitted address, calls request to send a link to it, and redirects to
// the page sent. It does so too if the address has received too many mails.
func (p *Pages) sendLink(v *Visit, form pages.View, purpose people.LinkPurpose, sent string,
	request func(people.FreshLink) error) (pages.View, error) {
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

func sent(what string) handler {
	return func(*Visit) (pages.View, error) {
		return pages.View{Template: "sent", Title: "Check your email", Data: what}, nil
	}
}

// linkForm is a page behind a link with a confirmation button. Opening the link has no effect,
// because mail scanners open links too.
type linkForm struct{ Action, Token, Text, Button string }

// signUps counts the forms to sign up. Networks with the same hash share a count, so that it takes
// little memory.
type signUps struct {
	forms *prometheus.CounterVec
	seed  maphash.Seed

	mu       sync.Mutex
	hour     time.Time
	networks [1024]int // in that hour
}

func newSignUps() *signUps {
	s := &signUps{seed: maphash.MakeSeed(), forms: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authquota_sign_ups_total",
		Help: "Forms to sign up by outcome: mailed, limited (too many for the address or from the network: no mail).",
	}, []string{"outcome"})}
	for _, mailed := range []bool{true, false} { // create the series
		s.count(mailed, "", time.Time{}, 0)
	}
	return s
}

func (s *signUps) count(mailed bool, from string, now time.Time, n int) {
	outcome := "limited"
	if mailed {
		outcome = "mailed"
	}
	s.forms.WithLabelValues(outcome).Add(float64(n))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	s.networks[maphash.String(s.seed, people.NetworkOf(from))%uint64(len(s.networks))] += n
}

func (s *signUps) begin(now time.Time) {
	if hour := now.Truncate(time.Hour); !hour.Equal(s.hour) {
		s.hour, s.networks = hour, [1024]int{}
	}
}

// largest returns the forms of the network with the most in the hour of now.
func (s *signUps) largest(now time.Time) (most float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(now)
	for _, n := range s.networks {
		most = max(most, float64(n))
	}
	return most
}

// Collectors returns the metrics of the pages.
func (p *Pages) Collectors() []prometheus.Collector {
	return []prometheus.Collector{p.signUps.forms, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "authquota_sign_ups_largest_network",
		Help: "Forms to sign up that this process got from one network, /24 or /48, since the hour began: the most of any.",
	}, func() float64 { return p.signUps.largest(p.Now()) })}
}
