package accountpages

import (
	"context"
	"net/http"
	"strings"

	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/people"
)

// linkPage is the page that a link in a mail opens. Opening the link has no effect, because mail
// scanners open links too; only the form on the page uses it. In texts, {email} is the address of
// the link, and {when} the time at which a lost authenticator is removed.
type linkPage struct {
	purpose people.LinkPurpose
	title   string
	text    string // empty: the form asks for a new password
	button  string
	again   string // path of the page to request another link, and where the form leads without a password
	notice  string // shown there

	// One of them uses the link with this secret. It returns not_found if the link was used in the
	// meantime.
	change   func(ctx context.Context, secret string) error
	password func(v *Visit, secret, email, hash string) (pages.View, error)
}

func (p *Pages) linkPages() []linkPage {
	return []linkPage{
		{
			purpose: people.LinkConfirm, title: "Choose a password", button: "Create account",
			again: "/account/sign-up", password: p.confirm,
		},
		{
			purpose: people.LinkReset, title: "Choose a new password", button: "Change password",
			again: "/account/forgot", password: p.reset,
		},
		{
			purpose: people.LinkNewAddress, title: "Confirm your new address", button: "Use this address",
			text: "You will sign in with {email} and receive mails there. We notify the current address. If you did not " +
				"request this, close this page: nothing has changed.",
			again: securityPath, notice: "Your email address was changed.", change: p.People.ChangeAddress,
		},
		{
			purpose: people.LinkOldAddress, title: "Keep your address?", button: "Keep address",
			text: "The account keeps its email address. If you did not request the change, change your password afterwards, " +
				"which signs out every other browser.",
			again: securityPath, notice: "Your email address was not changed.", change: p.People.KeepAddress,
		},
		{
			purpose: people.LinkLost, title: "Is the authenticator lost?", button: "Yes, it is lost",
			text: "If you confirm, the authenticator and the recovery codes will be removed on {when}. You set up new ones " +
				"the next time you sign in. Signing in with the authenticator before then cancels the removal.",
			again: signInPath, change: p.People.BeginReset,
			notice: "Come back after {when}, sign in with your password and set up a new authenticator.",
		},
		{
			purpose: people.LinkKeep, title: "Keep the authenticator?", button: "Keep authenticator",
			text: "The authenticator stays. If you did not report it lost, change your password afterwards: someone else " +
				"knows it.",
			again: signInPath, notice: "The authenticator stays.", change: p.People.CancelReset,
		},
	}
}

type linkForm struct{ Action, Token, Email, Text, Button string }

// openLink returns the handler that shows the page and handles its form.
func (p *Pages) openLink(page linkPage) handler {
	return func(v *Visit) (pages.View, error) {
		shown, err := p.linkForm(v, page)
		if problem.Of(err).Code == problem.NotFound {
			return gone(page.again), nil
		}
		return shown, err
	}
}

func (p *Pages) linkForm(v *Visit, page linkPage) (pages.View, error) {
	ctx, secret := v.ctx(), token(v)
	link, err := p.People.Link(ctx, secret, page.purpose)
	if err != nil {
		return pages.View{}, err
	}
	if page.purpose == people.LinkConfirm {
		// by another link to the same address
		if id, _, err := p.People.Credentials(ctx, link.Email); err != nil || id != "" {
			return gone(signInPath), err
		}
	}
	fill := strings.NewReplacer("{email}", link.Email,
		"{when}", account.FormatTime(link.RequestedAt().Add(people.ResetWait)))
	form := pages.View{Template: "link", Title: page.title, Data: linkForm{
		page.purpose.Page(), secret, link.Email, fill.Replace(page.text), page.button,
	}}
	if page.password != nil {
		form.Template = "password"
	}
	switch {
	case v.Request.Method != http.MethodPost:
		return form, nil
	case page.password == nil:
		return pages.View{Redirect: page.again, Notice: fill.Replace(page.notice)}, page.change(ctx, secret)
	}
	chosen := v.PostForm("password")
	if err := credential.CheckPassword(chosen, link.Email); err != nil {
		return form.Wrong("password", err.Error()), nil
	}
	hash, err := credential.HashPassword(ctx, chosen)
	if err != nil {
		return pages.View{}, problem.Unavailable(err)
	}
	return page.password(v, secret, link.Email, hash)
}

// gone returns the page for an invalid link, with a link to request another one.
func gone(again string) pages.View {
	return pages.View{Template: "gone", Title: "This link has expired", Status: http.StatusGone, Data: again}
}

func (p *Pages) confirm(v *Visit, secret, _, hash string) (pages.View, error) {
	admitted, err := p.People.SignUp(v.ctx(), secret, hash, v.Entry())
	v.Admit(admitted)
	return pages.View{Redirect: "/account/authenticator"}, err
}

// reset sets the new password. The person then signs in with it and the second factor.
func (p *Pages) reset(v *Visit, secret, email, hash string) (pages.View, error) {
	err := p.People.ResetPassword(v.ctx(), secret, hash, v.Entry(), people.AttemptsOnAddress.Of(v.network(), email))
	if err == nil {
		v.Forget()
	}
	return pages.View{Redirect: signInPath, Notice: "Your password was changed. Sign in with the new one."}, err
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

type addressForm struct{ Email, Next string }

const noAddress = "Enter an email address, such as ada@example.org."

var (
	signUpForm = pages.View{Template: "sign-up", Title: "Create an account", Data: addressForm{}}
	forgotForm = pages.View{Template: "forgot", Title: "Forgotten password", Data: addressForm{}}
)

// static returns the handler of a page that is the same for everyone.
func static(page pages.View) handler { return func(*Visit) (pages.View, error) { return page, nil } }

// signUp sends a mail to the address. The page does not reveal whether the address has an account.
func (p *Pages) signUp(v *Visit) (pages.View, error) {
	return p.sendLink(v, signUpForm, people.LinkConfirm, p.People.RequestSignUp)
}

// forgot sends a link if the address has an account. The page is the same in both cases.
func (p *Pages) forgot(v *Visit) (pages.View, error) {
	return p.sendLink(v, forgotForm, people.LinkReset, p.People.RequestReset)
}

// sendLink validates the submitted address, calls request to send a link to it, and redirects to
// the page that says so. It does so too if the address has received too many mails.
func (p *Pages) sendLink(v *Visit, form pages.View, purpose people.LinkPurpose,
	request func(ctx context.Context, email string) error) (pages.View, error) {
	email, ok := addressOf(v)
	if !ok {
		form.Data = addressForm{Email: email}
		return form.Wrong("email", noAddress), nil
	}
	goes, err := p.mayMail(v, purpose, email)
	if err == nil && goes {
		err = request(v.ctx(), email)
	}
	return pages.View{Redirect: v.FullPath() + "/sent"}, err
}

// mayMail counts a mail that anyone can request for an address, and reports whether to send it. The
// page is the same in both cases: the link in an earlier mail still works, and showing a delay
// would let an attacker block the form.
func (p *Pages) mayMail(v *Visit, purpose people.LinkPurpose, email string) (bool, error) {
	ctx, from := v.ctx(), people.FormsFrom.Of(v.network())
	account, _, err := p.People.Credentials(ctx, email)
	if err != nil {
		return false, err
	}
	if account != "" && purpose == people.LinkReset {
		from = people.ResetsFrom.Of(v.network())
	}
	wait, err := p.People.CountAttempt(ctx, people.MailsTo.Of(string(purpose), email), from)
	if err == nil && purpose == people.LinkConfirm {
		p.signUps.count(wait == 0, v.Address(), v.Now)
	}
	return wait == 0, err
}

func sent(what string) pages.View {
	return pages.View{Template: "sent", Title: "Check your email", Data: what}
}

func addressOf(v *Visit) (string, bool) { return people.Email(v.PostForm("email")) }

// lostForm explains the options of a person who has the password but neither the authenticator nor
// a recovery code.
func (p *Pages) lostForm(v *Visit) (pages.View, error) {
	if !v.Person.AuthenticatorConfirmed {
		return pages.View{Redirect: "/account/authenticator"}, nil
	}
	return pages.View{Template: "lost-authenticator", Title: "Lost authenticator", Data: v.Person.ResetAt}, nil
}

// lost sends a mail with two links: one starts the waiting period, the other cancels it.
func (p *Pages) lost(v *Visit) (pages.View, error) {
	again, err := p.lostForm(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	wait, err := p.People.CountAttempt(v.ctx(), people.MailsTo.Of(string(people.LinkLost), v.Person.Account))
	if err == nil && wait == 0 { // otherwise the links of the last mail still work
		err = p.People.RequestNewAuthenticator(v.ctx(), v.Person)
	}
	return pages.View{Redirect: "/account/lost-authenticator/sent"}, err
}

func (p *Pages) emailForm(v *Visit) (pages.View, error) {
	return pages.View{Template: "security-email", Title: "Change your email address", Data: v.PostForm("email")}, nil
}

// email sends a link to the new address. The page does not reveal whether another account has that
// address.
func (p *Pages) email(v *Visit) (pages.View, error) {
	again, _ := p.emailForm(v)
	email, valid := addressOf(v)
	switch {
	case !valid:
		return again.Wrong("email", noAddress), nil
	case email == v.Person.Email:
		return again.Wrong("email", "This is already your address."), nil
	}
	if wait, err := p.People.CountAttempt(v.ctx(), people.MailsTo.Of(string(people.LinkNewAddress), email),
		people.MailsTo.Of("of", v.Person.Account)); err != nil || wait > 0 {
		return again.TooMany(wait), err
	}
	return pages.View{
		Redirect: securityPath, Notice: "We sent a mail to " + email +
			". Open the link in it within 24 hours. Until then, nothing changes.",
	}, p.People.RequestAddressChange(v.ctx(), v.Person, email)
}

func (p *Pages) cancelAddressChange(v *Visit) (pages.View, error) {
	err := p.People.CancelAddressChange(v.ctx(), v.Person.Account)
	return pages.View{Redirect: securityPath, Notice: "Your email address was not changed."}, err
}
