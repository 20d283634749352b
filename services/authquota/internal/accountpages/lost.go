package accountpages

import (
	"opportunity.internal/pkg/pages"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/people"
)

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
	ctx := v.ctx()
	sent := pages.View{Redirect: "/account/lost-authenticator/sent"}
	if wait, err := p.People.CountAttempt(ctx,
		people.MailsTo.Of(string(people.LinkLost), v.Person.Account)); err != nil || wait > 0 {
		return sent, err // the links of the last mail still work
	}
	lost := people.NewLink(people.LinkLost, v.Person.Account, v.Person.Email, v.Now)
	keep := people.NewLink(people.LinkKeep, v.Person.Account, v.Person.Email, v.Now)
	return sent, p.People.RequestNewAuthenticator(ctx, v.Person.Account, lost, keep, mail.Message{
		To: v.Person.Email, Template: "authenticator-reset-asked", Data: map[string]string{
			"when":   account.FormatTime(v.Now.Add(people.ResetWait)),
			"link":   p.linkTo("/account/lost-authenticator/confirm", lost),
			"cancel": p.linkTo("/account/lost-authenticator/cancel", keep),
		},
	})
}

func (p *Pages) lostConfirmForm(v *Visit) (pages.View, error) {
	l, err := p.People.Link(v.ctx(), token(v), people.LinkLost)
	return unlessGone(signInPath, pages.View{Template: "link", Title: "Is the authenticator lost?", Data: linkForm{
		"/account/lost-authenticator/confirm", token(v),
		"If you confirm, the authenticator and the recovery codes will be removed on " +
			account.FormatTime(l.RequestedAt().Add(people.ResetWait)) +
			". You set up new ones the next time you sign in. Signing in with the authenticator before then cancels the " +
			"removal.",
		"Yes, it is lost",
	}}, err)
}

func (p *Pages) lostConfirm(v *Visit) (pages.View, error) {
	at, err := p.People.BeginReset(v.ctx(), token(v))
	return unlessGone(signInPath, pages.View{
		Redirect: signInPath, Notice: "Come back after " + account.FormatTime(at) +
			", sign in with your password and set up a new authenticator.",
	}, err)
}

func (p *Pages) lostCancelForm(v *Visit) (pages.View, error) {
	_, err := p.People.Link(v.ctx(), token(v), people.LinkKeep)
	return unlessGone(signInPath, pages.View{Template: "link", Title: "Keep the authenticator?", Data: linkForm{
		"/account/lost-authenticator/cancel", token(v),
		"The authenticator stays. If you did not report it lost, change your password afterwards: someone else knows it.",
		"Keep authenticator",
	}}, err)
}

func (p *Pages) lostCancel(v *Visit) (pages.View, error) {
	err := p.People.CancelReset(v.ctx(), token(v))
	return unlessGone(signInPath, pages.View{Redirect: signInPath, Notice: "The authenticator stays."}, err)
}

// keepAuthenticator handles the button on every page while the waiting period lasts.
func (p *Pages) keepAuthenticator(v *Visit) (pages.View, error) {
	err := p.People.KeepAuthenticator(v.ctx(), v.Person.Account)
	return pages.View{
		Redirect: securityPath,
		Notice:   "The authenticator stays. If you did not report it lost, change your password: someone else knows it.",
	}, err
}
