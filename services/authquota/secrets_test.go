package authquota_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"opportunity.internal/services/authquota/internal/testkit"
)

// The log has no secrets of people, and the database has only hashes and sealed values.
func TestSecretsAreNotInLogOrDatabase(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		secrets := []string{testkit.Password, b.Seed, "another-good-phrase-of-words", "a guess that is wrong"}
		for _, c := range b.Codes {
			secrets = append(secrets, c, strings.ReplaceAll(c, "-", ""))
		}
		clock.Advance(time.Minute)
		o := b.other()
		o.EnterPassword()
		secrets = append(secrets, o.Cookies["__Host-session"])
		o.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
		o.Post("/account/sign-in/code", "code", o.Codes[0]).Leads("/account")
		o.Post("/account/sign-in", "email", b.Email, "password", "a guess that is wrong").Shows(http.StatusUnprocessableEntity)
		link := o.askFor("/account/forgot", b.Email, "reset-password", 1)
		o.Get(link + "&next=" + testkit.Password).Shows(http.StatusOK)
		o.Post("/account/reset", "token", testkit.Token(o.Get(link)), "password", "another-good-phrase-of-words").Leads("/account/sign-in")
		for _, known := range []*browser{b, o} {
			for _, value := range known.Cookies {
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
		svc.Metrics()
		svc.stop()

		places := map[string]string{"log": svc.Log.String()}
		for table, rows := range s.open(t).Dump(t) {
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
