package authquota_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
)

func TestARecoveryCodeSignsInOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		o := b.other()
		o.enterPassword()
		o.post("/account/sign-in/code", "code", "  "+o.codes[3]+" ").leads("/account")
		require.Contains(t, svc.mail(b.email, "recovery-code-used", 1).plain, "9")
		o.get("/account/recovery-codes").shows(http.StatusOK, "9")
		again := b.other()
		again.enterPassword()
		again.post("/account/sign-in/code", "code", o.codes[3]).shows(http.StatusUnprocessableEntity, "wrong or was already used")

		fresh := o.post("/account/recovery-codes").shows(http.StatusOK, "Save them now")
		svc.mail(b.email, "factor-changed", 1)
		again.post("/account/sign-in/code", "code", o.codes[4]).shows(http.StatusUnprocessableEntity)
		again.post("/account/sign-in/code", "code", codes.FindStringSubmatch(fresh.body)[1]).leads("/account")

		clock.move(10 * time.Minute) // the proof is not recent any more
		o.post("/account/recovery-codes").leads("/account/security/confirm?next=%2Faccount%2Frecovery-codes")
	})
}

func TestAForgottenPassword(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		stranger := b.other()
		stranger.get("/account/forgot").shows(http.StatusOK, "Forgotten password")
		late := stranger.askFor("/account/forgot", b.email, "reset-password", 1)
		stranger.get("/account/forgot/sent").shows(http.StatusOK, "Check your e-mail")
		stranger.get(late).shows(http.StatusOK, "Choose a new password", b.email)
		clock.move(time.Hour)
		stranger.get(late).shows(http.StatusGone)
		b.get("/account").leads("/account/sign-in") // idle by now

		b.enterPassword()
		b.post("/account/sign-in/code", "code", b.code()).leads("/account")
		first := stranger.askFor("/account/forgot", b.email, "reset-password", 2)
		second := stranger.askFor("/account/forgot", b.email, "reset-password", 3)
		token := stranger.get(second).token()
		stranger.post("/account/reset", "token", token, "password", "ada@example.org").shows(http.StatusUnprocessableEntity)
		stranger.post("/account/reset", "token", token, "password", "nineteen-quiet-bicycles-sing").leads("/account/sign-in")
		stranger.get("/account/sign-in").shows(http.StatusOK, "Your password was changed")
		for _, link := range []string{first, second} {
			stranger.get(link).shows(http.StatusGone)
		}
		stranger.post("/account/reset", "token", token, "password", goodPassword).shows(http.StatusGone)
		svc.mail(b.email, "password-changed", 1)
		b.get("/account").leads("/account/sign-in") // every session has ended

		clock.move(time.Minute)
		stranger.enterPassword().shows(http.StatusUnprocessableEntity)
		stranger.password = "nineteen-quiet-bicycles-sing"
		stranger.enterPassword().leads("/account/sign-in/code")
		stranger.get("/account").leads("/account/sign-in/code") // the second factor is still required
		stranger.post("/account/sign-in/code", "code", stranger.code()).leads("/account")
	})
}

func TestALostAuthenticator(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		o := b.other()
		ask := func(n int) (lost, keep string) {
			t.Helper()
			o.enterPassword().leads("/account/sign-in/code")
			o.get("/account/lost-authenticator").shows(http.StatusOK, "three days")
			o.post("/account/lost-authenticator").leads("/account/lost-authenticator/sent")
			o.get("/account/lost-authenticator/sent").shows(http.StatusOK, "Check your e-mail")
			found := svc.mail(b.email, "authenticator-reset-asked", n).links()
			require.Len(t, found, 2)
			return found[0], found[1]
		}
		begin := func(lost string) {
			t.Helper()
			form := o.get(lost).shows(http.StatusOK, "Is the authenticator lost?")
			o.post("/account/lost-authenticator/confirm", "token", form.token()).leads("/account/sign-in")
		}
		signsInByCode := func() {
			t.Helper()
			clock.move(time.Minute)
			o.enterPassword().leads("/account/sign-in/code")
			o.post("/account/sign-in/code", "code", o.code()).leads("/account")
		}

		// cancelled by the link in the mail
		lost, keep := ask(1)
		begin(lost)
		o.get(lost).shows(http.StatusGone)
		o.post("/account/lost-authenticator/cancel", "token", o.get(keep).shows(http.StatusOK, "Keep the authenticator?").token()).leads("/account/sign-in")
		o.get(keep).shows(http.StatusGone)
		clock.move(73 * time.Hour)
		o.enterPassword().leads("/account/sign-in/code")

		// cancelled before it started
		lost, keep = ask(2)
		o.post("/account/lost-authenticator/cancel", "token", o.get(keep).token()).leads("/account/sign-in")
		o.get(lost).shows(http.StatusGone)

		// cancelled by signing in completely
		lost, keep = ask(3)
		begin(lost)
		signsInByCode()
		o.get(keep).shows(http.StatusGone)
		clock.move(73 * time.Hour)
		o.enterPassword().leads("/account/sign-in/code")

		// too late to start
		lost, _ = ask(4)
		clock.move(24 * time.Hour)
		o.get(lost).shows(http.StatusGone)

		// removed after the waiting period, not before
		lost, _ = ask(5)
		begin(lost)
		clock.move(72*time.Hour - time.Second)
		o.enterPassword().leads("/account/sign-in/code")
		o.get("/account/lost-authenticator").shows(http.StatusOK, "The authenticator will be removed on")
		clock.move(time.Second)
		o.enterPassword()
		svc.mail(b.email, "authenticator-reset", 1)
		o.get("/account").leads("/account/authenticator")
		old := o.seed
		o.seed = o.get("/account/authenticator").seed()
		require.NotEqual(t, old, o.seed)
		o.post("/account/authenticator", "code", o.code()).shows(http.StatusOK, "Your recovery codes")
		clock.move(time.Minute)
		o.enterPassword()
		o.post("/account/sign-in/code", "code", b.codes[0]).shows(http.StatusUnprocessableEntity)
		o.post("/account/sign-in/code", "code", o.code()).leads("/account")
	})
}

func TestSignInDataIsDeletedAfterRetention(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.post("/account/sign-in", "email", "nobody@example.org", "password", "a guess that is wrong")
		left := func() (rows []int) {
			for _, table := range []string{"sessions", "links", "attempts", "devices", "people"} {
				var n int
				require.NoError(t, s.open(t).Raw("SELECT count(*) FROM "+table).Scan(&n).Error)
				rows = append(rows, n)
			}
			return rows
		}
		require.Equal(t, []int{2, 1, 4, 1, 1}, left())
		svc.stop()
		later := clockAt(svc.now().Add(401 * 24 * time.Hour))
		s.start(t, func(c *authquota.Config) { c.Now = later.Now })
		storetest.Eventually(t, "forgotten", func() bool { return slices.Equal([]int{0, 0, 0, 0, 1}, left()) })
	})
}
