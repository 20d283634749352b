package authquota_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The log has no secrets of people, and the database has only hashes and sealed values.
func TestSecretsAreNotInLogOrDatabase(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		secrets := []string{goodPassword, b.seed, "another-good-phrase-of-words", "a guess that is wrong"}
		for _, c := range b.codes {
			secrets = append(secrets, c, strings.ReplaceAll(c, "-", ""))
		}
		clock.move(time.Minute)
		o := b.other()
		o.enterPassword()
		secrets = append(secrets, o.cookies["__Host-session"])
		o.post("/account/lost-authenticator").leads("/account/lost-authenticator/sent")
		o.post("/account/sign-in/code", "code", o.codes[0]).leads("/account")
		o.post("/account/sign-in", "email", b.email, "password", "a guess that is wrong").shows(http.StatusUnprocessableEntity)
		link := o.askFor("/account/forgot", b.email, "reset-password", 1)
		o.get(link + "&next=" + goodPassword).shows(http.StatusOK)
		o.post("/account/reset", "token", o.get(link).token(), "password", "another-good-phrase-of-words").leads("/account/sign-in")
		for _, known := range []*browser{b, o} {
			for _, value := range known.cookies {
				secrets = append(secrets, value)
			}
		}
		for _, m := range s.mails(t) {
			for _, l := range m.links() {
				if _, token, ok := strings.Cut(l, "token="); ok {
					secrets = append(secrets, token)
				}
			}
		}
		svc.metrics()
		svc.stop()

		places := map[string]string{"log": svc.log.String()}
		for table, rows := range s.dump(t) {
			places["table "+table] = rows
		}
		require.Contains(t, places["table people"], "ada@example.org")
		require.Contains(t, places["log"], "/account/reset")
		require.Greater(t, len(secrets), 30)
		for _, secret := range secrets {
			for place, text := range places {
				require.NotContains(t, text, secret, place)
			}
		}
		require.NotContains(t, places["log"], "ada@example.org")
		require.NotContains(t, places["log"], "203.0.113.7")
		require.NotContains(t, places["table attempts"], "ada@example.org")
	})
}

func TestEverySecurityEventIsRecorded(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		o := b.other()
		o.post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong")
		o.post("/account/sign-in", "email", b.email, "password", "a guess that is wrong")
		o.enterPassword()
		o.post("/account/sign-in/code", "code", o.wrongCode())
		o.post("/account/lost-authenticator")
		found := svc.mail(b.email, "authenticator-reset-asked", 1).links()
		o.post("/account/lost-authenticator/confirm", "token", o.get(found[0]).token())
		o.post("/account/sign-in/code", "code", o.codes[0]).leads("/account")
		o.post("/account/recovery-codes").shows(http.StatusOK)
		o.post("/account/sign-out")
		link := o.askFor("/account/forgot", b.email, "reset-password", 1)
		o.post("/account/reset", "token", o.get(link).token(), "password", "another-good-phrase-of-words").leads("/account/sign-in")
		var rows []struct{ Actor, Action string }
		require.NoError(t, s.open(t).Raw("SELECT actor, action FROM audit_log ORDER BY id").Scan(&rows).Error)
		var actions []string
		for _, r := range rows {
			require.Equal(t, b.account, r.Actor)
			actions = append(actions, r.Action)
		}
		require.Equal(t, []string{
			"person.sign_up", "factor.add", "person.sign_in", "person.sign_in_failed", "person.sign_in_failed", "factor.reset_asked", "factor.reset_begin",
			"recovery_code.use", "factor.reset_cancel", "person.sign_in", "recovery_code.renew", "session.end", "person.password_reset_asked", "person.password_change",
		}, actions)
	})
}
