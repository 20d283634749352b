package pages

import (
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/throttle"
)

// lostForm explains what somebody can do who has the password and neither the authenticator nor a recovery code.
func (s *Site) lostForm(v *visit) (view, error) {
	if !v.Person.AuthenticatorConfirmed {
		return view{Redirect: "/account/authenticator"}, nil
	}
	return view{Template: "lost-authenticator", Title: "Lost authenticator", Data: v.Person.ResetAt}, nil
}

// lost sends a mail with two links: one begins the wait, the other ends it.
func (s *Site) lost(v *visit) (view, error) {
	again, err := s.lostForm(v)
	if err != nil || again.Redirect != "" {
		return again, err
	}
	ctx := v.Request.Context()
	sent := view{Redirect: "/account/lost-authenticator/sent"}
	if wait, err := s.Tries.Try(ctx, throttle.MailTo(string(link.Lost), v.Person.Account)); err != nil || wait > 0 {
		return sent, err // the links of the last mail still work
	}
	lost := link.New(link.Lost, v.Person.Account, v.Person.Email, v.now)
	keep := link.New(link.Keep, v.Person.Account, v.Person.Email, v.now)
	return sent, s.Losses.AskNewAuthenticator(ctx, v.Person.Account, lost, keep, mail.Message{
		To: v.Person.Email, Template: "authenticator-reset-asked", Data: map[string]string{
			"when":   mailTime(v.now.Add(link.ResetWait)),
			"link":   s.linkTo("/account/lost-authenticator/confirm", lost),
			"cancel": s.linkTo("/account/lost-authenticator/cancel", keep),
		},
	})
}

func (s *Site) lostSent(*visit) (view, error) {
	return view{
		Template: "sent", Title: "Check your e-mail",
		Data: "two links: one begins the wait of three days, the other stops it. The first works for 24 hours",
	}, nil
}

// linkForm is a page behind a link that asks for no more than a click: opening it does nothing yet, because programs that look into
// mails open links too.
type linkForm struct{ Action, Token, Text, Button string }

func (s *Site) lostConfirmForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.Lost)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Template: "link", Title: "Is the authenticator lost?", Data: linkForm{
		"/account/lost-authenticator/confirm", v.token(),
		"If you confirm, the authenticator and the recovery codes are removed on " + mailTime(l.AskedAt().Add(link.ResetWait)) +
			", and you set up new ones when you sign in after that. Signing in with the authenticator before then stops this.",
		"Yes, it is lost",
	}}, err
}

func (s *Site) lostConfirm(v *visit) (view, error) {
	at, err := s.Losses.BeginReset(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{
		Redirect: "/account/sign-in", Notice: "Come back after " + mailTime(at) + ": you then sign in with your password and set up a new authenticator.",
	}, err
}

func (s *Site) lostCancelForm(v *visit) (view, error) {
	_, err := s.Links.Link(v.Request.Context(), v.token(), link.Keep)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Template: "link", Title: "Keep the authenticator?", Data: linkForm{
		"/account/lost-authenticator/cancel", v.token(),
		"The authenticator stays as it is. If it was not you who said that it is lost, choose a new password after this: somebody had access to your account.",
		"Keep the authenticator",
	}}, err
}

func (s *Site) lostCancel(v *visit) (view, error) {
	err := s.Losses.CancelReset(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Redirect: "/account/sign-in", Notice: "The authenticator stays as it is."}, err
}

// keepAuthenticator is the button on every page of who is signed in while the wait lasts.
func (s *Site) keepAuthenticator(v *visit) (view, error) {
	err := s.Losses.KeepAuthenticator(v.Request.Context(), v.Person.Account)
	return view{
		Redirect: security,
		Notice:   "The authenticator stays as it is. If it was not you who said that it is lost, change your password: somebody had access to your account.",
	}, err
}

func mailTime(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
