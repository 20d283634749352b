package accountpages_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/authquota/internal/testkit"
)

func TestEverySecurityEventIsRecorded(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		o := b.Other()
		o.Post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong")
		o.Post("/account/sign-in", "email", b.Email, "password", "a guess that is wrong")
		o.EnterPassword()
		o.Post("/account/sign-in/code", "code", o.WrongCode())
		o.Post("/account/lost-authenticator")
		found := f.mail(b.Email, "authenticator-reset-asked", 1).links()
		o.Post("/account/lost-authenticator/confirm", "token", testkit.Token(o.Get(found[0])))
		o.Post("/account/sign-in/code", "code", o.Codes[0]).Leads("/account")
		o.Post("/account/recovery-codes").Shows(http.StatusOK)
		o.Post("/account/sign-out")
		link := f.askFor(o, "/account/forgot", b.Email, "reset-password", 1)
		o.Post("/account/reset", "token", testkit.Token(o.Get(link)), "password", "another-good-phrase-of-words").Leads("/account/sign-in")
		require.Equal(t, []string{
			"person.sign_up", "factor.add", "person.sign_in", "person.sign_in_failed", "person.sign_in_failed", "factor.reset_asked", "factor.reset_begin",
			"recovery_code.use", "factor.reset_cancel", "person.sign_in", "recovery_code.renew", "session.end", "person.password_reset_asked", "person.password_change",
		}, f.Actions(t, b.Account))
		require.Len(t, f.Audit(t), len(f.Actions(t, b.Account)), "nobody else did anything")
	})
}
