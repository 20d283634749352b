package pages

import (
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/throttle"
)

// lostForm explains the options of a person who has the password but neither the authenticator nor a recovery code.
func (s *Site) lostForm(v *visit) (view, error) {
	if !v.Person.AuthenticatorConfirmed {
		return view{Redirect: "/account/authenticator"}, nil
	}
	return view{Template: "lost-authenticator", Title: "Lost authenticator", Data: v.Person.ResetAt}, nil
}

// lost sends a mail with two links: one starts the waiting period, the other cancels it.
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
	return sent, s.Losses.RequestNewAuthenticator(ctx, v.Person.Account, lost, keep, mail.Message{
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
		Data: "two links: one starts the three-day waiting period, the other cancels it. The first works for 24 hours",
	}, nil
}

// linkForm is a page behind a link with a confirmation button. Opening the link has no effect, because mail scanners open links
// too.
type linkForm struct{ Action, Token, Text, Button string }

func (s *Site) lostConfirmForm(v *visit) (view, error) {
	l, err := s.Links.Link(v.Request.Context(), v.token(), link.Lost)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Template: "link", Title: "Is the authenticator lost?", Data: linkForm{
		"/account/lost-authenticator/confirm", v.token(),
		"If you confirm, the authenticator and the recovery codes will be removed on " + mailTime(l.RequestedAt().Add(link.ResetWait)) +
			". You set up new ones the next time you sign in. Signing in with the authenticator before then cancels the removal.",
		"Yes, it is lost",
	}}, err
}

func (s *Site) lostConfirm(v *visit) (view, error) {
	at, err := s.Losses.BeginReset(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{
		Redirect: "/account/sign-in", Notice: "Come back after " + mailTime(at) + ", sign in with your password and set up a new authenticator.",
	}, err
}

func (s *Site) lostCancelForm(v *visit) (view, error) {
	_, err := s.Links.Link(v.Request.Context(), v.token(), link.Keep)
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Template: "link", Title: "Keep the authenticator?", Data: linkForm{
		"/account/lost-authenticator/cancel", v.token(),
		"The authenticator stays. If you did not report it lost, change your password afterwards: someone else knows it.",
		"Keep authenticator",
	}}, err
}

func (s *Site) lostCancel(v *visit) (view, error) {
	err := s.Losses.CancelReset(v.Request.Context(), v.token())
	if problem.Of(err).Code == problem.NotFound {
		return gone("/account/sign-in"), nil
	}
	return view{Redirect: "/account/sign-in", Notice: "The authenticator stays."}, err
}

// keepAuthenticator handles the button on every page while the waiting period lasts.
func (s *Site) keepAuthenticator(v *visit) (view, error) {
	err := s.Losses.KeepAuthenticator(v.Request.Context(), v.Person.Account)
	return view{
		Redirect: security,
		Notice:   "The authenticator stays. If you did not report it lost, change your password: someone else knows it.",
	}, err
}

func mailTime(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
