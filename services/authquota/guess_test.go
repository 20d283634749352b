package authquota_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// atOnce sends from all browsers concurrently.
func atOnce(browsers []*browser, send func(b *browser) page) []page {
	pages := make([]page, len(browsers))
	var all sync.WaitGroup
	for i, b := range browsers {
		all.Go(func() { pages[i] = send(b) })
	}
	all.Wait()
	return pages
}

func count(pages []page, status int) (n int) {
	for _, p := range pages {
		if p.status == status {
			n++
		}
	}
	return n
}

func TestACodeSignsInOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		var browsers []*browser
		for range 5 {
			o := b.other()
			o.enterPassword().leads("/account/sign-in/code")
			browsers = append(browsers, o)
		}
		code := b.code()
		got := atOnce(browsers, func(b *browser) page { return b.post("/account/sign-in/code", "code", code) })
		require.Equal(t, 1, count(got, http.StatusSeeOther))
		require.Equal(t, 4, count(got, http.StatusUnprocessableEntity))

		recovery := b.codes[0]
		got = atOnce(browsers, func(b *browser) page { return b.post("/account/sign-in/code", "code", recovery) })
		in := 0
		for i, b := range browsers {
			if got[i].status == http.StatusSeeOther && b.get("/account").status == http.StatusOK {
				in++
			}
		}
		require.Equal(t, 2, in, "one by the code of the app, one by the recovery code: %v", got)
	})
}

func TestACodeOfTheSetUpWorksOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startWithClock(t)
		b := svc.browser()
		b.confirm(b.askFor("/account/sign-up", "ada@example.org", "confirm-address", 1))
		b.email, b.password = "ada@example.org", goodPassword
		browsers := []*browser{b.other(), b.other(), b.other()}
		shown := map[string]bool{b.get("/account/authenticator").seed(): true}
		for _, o := range browsers {
			o.enterPassword()
			o.seed = o.get("/account/authenticator").seed()
			require.False(t, shown[o.seed], "what one browser is shown the next must not know")
			shown[o.seed] = true
		}
		got := atOnce(browsers, func(o *browser) page { return o.post("/account/authenticator", "code", o.code()) })
		require.Equal(t, 1, count(got, http.StatusOK))
		for i, o := range browsers {
			if got[i].status == http.StatusOK {
				b.seed = o.seed
			}
		}
		code := b.code()
		o := b.other()
		o.enterPassword().leads("/account/sign-in/code")
		o.post("/account/sign-in/code", "code", code).shows(http.StatusUnprocessableEntity, "already used")
	})
}

func TestWrongCodesAreDelayed(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		clock.move(time.Minute)
		s.Stop() // throttling does not need Redis
		o := b.other()
		o.enterPassword().leads("/account/sign-in/code")
		for i := range 10 {
			o.address = fmt.Sprintf("198.51.100.%d", i) // one network
			o.post("/account/sign-in/code", "code", o.wrongCode()).shows(http.StatusUnprocessableEntity, "The code is wrong")
		}
		rejected := o.post("/account/sign-in/code", "code", o.code()).shows(http.StatusTooManyRequests, "Too many attempts", "30 seconds")
		wait, err := strconv.Atoi(rejected.header.Get("Retry-After"))
		require.NoError(t, err)
		clock.move(time.Duration(wait) * time.Second)
		o.post("/account/sign-in/code", "code", o.code()).leads("/account")
		o.get("/account").shows(http.StatusOK)
	})
}

func TestWrongPasswordsDelayOnlyTheirSender(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		s.Stop()
		for _, email := range []string{"ada@example.org", "nobody@example.org"} {
			thief := svc.browser()
			thief.address = "198.51.100.1"
			for i := range 10 {
				thief.address = fmt.Sprintf("198.51.100.%d", i) // one network
				thief.post("/account/sign-in", "email", email, "password", "a guess that is wrong").
					shows(http.StatusUnprocessableEntity, "address or the password is wrong")
			}
			thief.post("/account/sign-in", "email", email, "password", goodPassword).shows(http.StatusTooManyRequests, "30 seconds")
		}
		owner := b.other()
		owner.enterPassword().leads("/account/sign-in/code")
		clock.move(30 * time.Second)
		late := b.other()
		late.address = "198.51.100.1"
		late.enterPassword().leads("/account/sign-in/code")
	})
}

func TestOneNetworkCannotTryManyAddresses(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startWithClock(t)
		require.NoError(t, s.open(t).Exec("DELETE FROM attempts").Error)
		b := svc.browser()
		b.post("/account/sign-in", "email", "nobody@example.org", "password", "x").shows(http.StatusUnprocessableEntity)
		require.NoError(t, s.open(t).Exec("UPDATE attempts SET failures = 101").Error)
		b.post("/account/sign-in", "email", "somebody@example.org", "password", "x").shows(http.StatusTooManyRequests)
		clock.move(time.Minute)
		b.post("/account/sign-in", "email", "somebody@example.org", "password", "x").shows(http.StatusUnprocessableEntity)
	})
}

// Responses do not reveal which addresses have an account: not by status, text, headers or cookies.
func TestResponsesDoNotRevealAccounts(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startWithClock(t)
		b := svc.browser()
		b.signUp("ada@example.org")
		for _, form := range []struct {
			path   string
			fields []string
		}{
			{"/account/sign-up", nil}, {"/account/forgot", nil}, {"/account/sign-in", []string{"password", "a guess that is wrong"}},
		} {
			stranger := svc.browser()
			known := stranger.post(form.path, append([]string{"email", "ada@example.org"}, form.fields...)...)
			unknown := stranger.post(form.path, append([]string{"email", "eve@example.org"}, form.fields...)...)
			require.Equal(t, known.status, unknown.status, form.path)
			unknown.header.Set("Date", known.header.Get("Date"))
			unknown.header.Set("X-Request-Id", known.header.Get("X-Request-Id"))
			require.Equal(t, known.header, unknown.header, form.path)
			require.Equal(t, known.text(), unknown.text(), form.path)
			require.Empty(t, stranger.cookies)
		}
		svc.mail("ada@example.org", "already-have-account", 1)
		svc.mail("ada@example.org", "reset-password", 1)
		svc.mail("eve@example.org", "confirm-address", 1)
		for _, m := range s.mails(t) {
			require.False(t, m.address == "eve@example.org" && m.subject == svc.mail("ada@example.org", "reset-password", 1).subject)
		}
		var purposes []string
		require.NoError(t, s.open(t).Raw("SELECT purpose FROM links WHERE used_at IS NULL ORDER BY purpose").Scan(&purposes).Error)
		require.Equal(t, []string{"confirm", "none", "none", "reset"}, purposes, "as much is written for one as for the other")
	})
}
