package accountpages_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// atOnce sends from all browsers concurrently.
func atOnce(browsers []*testkit.Person, send func(b *testkit.Person) testkit.Page) []testkit.Page {
	pages := make([]testkit.Page, len(browsers))
	var all sync.WaitGroup
	for i, b := range browsers {
		all.Go(func() { pages[i] = send(b) })
	}
	all.Wait()
	return pages
}

func count(pages []testkit.Page, status int) (n int) {
	for _, p := range pages {
		if p.Status == status {
			n++
		}
	}
	return n
}

func TestACodeSignsInOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		var browsers []*testkit.Person
		for range 5 {
			o := b.Other()
			o.EnterPassword().Leads("/account/sign-in/code")
			browsers = append(browsers, o)
		}
		code := b.Code()
		got := atOnce(browsers, func(b *testkit.Person) testkit.Page { return b.Post("/account/sign-in/code", "code", code) })
		require.Equal(t, 1, count(got, http.StatusSeeOther))
		require.Equal(t, 4, count(got, http.StatusUnprocessableEntity))

		recovery := b.Codes[0]
		got = atOnce(browsers, func(b *testkit.Person) testkit.Page {
			return b.Post("/account/sign-in/code", "code", recovery)
		})
		in := 0
		for i, b := range browsers {
			if got[i].Status == http.StatusSeeOther && b.Get("/account").Status == http.StatusOK {
				in++
			}
		}
		require.Equal(t, 2, in, "one by the code of the app, one by the recovery code: %v", got)
	})
}

func TestACodeOfTheSetUpWorksOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *feature) {
		b := f.Visitor()
		f.confirm(b, f.askFor(b, "/account/sign-up", "ada@example.org", "confirm-address", 1))
		b.Email, b.Password = "ada@example.org", testkit.Password
		browsers := []*testkit.Person{b.Other(), b.Other(), b.Other()}
		shown := map[string]bool{testkit.Seed(b.Get("/account/authenticator")): true}
		for _, o := range browsers {
			o.EnterPassword()
			o.Seed = testkit.Seed(o.Get("/account/authenticator"))
			require.False(t, shown[o.Seed], "what one browser is shown the next must not know")
			shown[o.Seed] = true
		}
		got := atOnce(browsers, func(o *testkit.Person) testkit.Page {
			return o.Post("/account/authenticator", "code", o.Code())
		})
		require.Equal(t, 1, count(got, http.StatusOK))
		for i, o := range browsers {
			if got[i].Status == http.StatusOK {
				b.Seed = o.Seed
			}
		}
		code := b.Code()
		o := b.Other()
		o.EnterPassword().Leads("/account/sign-in/code")
		o.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity, "already used")
	})
}

func TestWrongCodesAreDelayed(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.member("ada@example.org")
		o := b.Other()
		o.EnterPassword().Leads("/account/sign-in/code")
		for i := range 10 {
			o.Address = fmt.Sprintf("198.51.100.%d", i) // one network
			o.Post("/account/sign-in/code", "code", o.WrongCode()).Shows(http.StatusUnprocessableEntity, "The code is wrong")
		}
		rejected := o.Post("/account/sign-in/code", "code", o.Code()).Shows(http.StatusTooManyRequests, "Too many attempts", "30 seconds")
		wait, err := strconv.Atoi(rejected.Header.Get("Retry-After"))
		require.NoError(t, err)
		f.Advance(time.Duration(wait) * time.Second)
		o.Post("/account/sign-in/code", "code", o.Code()).Leads("/account")
		o.Get("/account").Shows(http.StatusOK)
	})
}

func TestWrongPasswordsDelayOnlyTheirSender(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.SignUp("ada@example.org")
		for _, email := range []string{"ada@example.org", "nobody@example.org"} {
			thief := f.Visitor()
			thief.Address = "198.51.100.1"
			for i := range 9 { // as the page counts them, without the time of a hash for each
				_, err := f.People.CountAttempt(t.Context(), people.AttemptsOnAddress(email, fmt.Sprintf("198.51.100.%d", i)))
				require.NoError(t, err)
			}
			thief.Address = "198.51.100.9" // the same network
			thief.Post("/account/sign-in", "email", email, "password", "a guess that is wrong").
				Shows(http.StatusUnprocessableEntity, "address or the password is wrong")
			thief.Post("/account/sign-in", "email", email, "password", testkit.Password).Shows(http.StatusTooManyRequests, "30 seconds")
		}
		owner := b.Other()
		owner.EnterPassword().Leads("/account/sign-in/code")
		f.Advance(30 * time.Second)
		late := b.Other()
		late.Address = "198.51.100.1"
		late.EnterPassword().Leads("/account/sign-in/code")
	})
}

func TestOneNetworkCannotTryManyAddresses(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		b := f.Visitor()
		b.Post("/account/sign-in", "email", "nobody@example.org", "password", "x").Shows(http.StatusUnprocessableEntity)
		for i := range 100 {
			_, err := f.People.CountAttempt(t.Context(), people.AttemptsOnAddress(fmt.Sprintf("nobody%d@example.org", i), b.Address), people.AttemptsFromNetwork(b.Address))
			require.NoError(t, err)
		}
		b.Post("/account/sign-in", "email", "somebody@example.org", "password", "x").Shows(http.StatusTooManyRequests)
		f.Advance(time.Minute)
		b.Post("/account/sign-in", "email", "somebody@example.org", "password", "x").Shows(http.StatusUnprocessableEntity)
	})
}

// Responses do not reveal which addresses have an account: not by status, text, headers or cookies.
func TestResponsesDoNotRevealAccounts(t *testing.T) {
	onSite(t, func(t *testing.T, f *feature) {
		f.SignUp("ada@example.org")
		for _, form := range []struct {
			path   string
			fields []string
		}{
			{"/account/sign-up", nil}, {"/account/forgot", nil}, {"/account/sign-in", []string{"password", "a guess that is wrong"}},
		} {
			stranger := f.Visitor()
			known := stranger.Post(form.path, append([]string{"email", "ada@example.org"}, form.fields...)...)
			unknown := stranger.Post(form.path, append([]string{"email", "eve@example.org"}, form.fields...)...)
			for _, own := range []string{"Date", api.RequestIDHeader} {
				known.Header.Del(own)
				unknown.Header.Del(own)
			}
			require.Equal(t, known.Status, unknown.Status, form.path)
			require.Equal(t, known.Header, unknown.Header, form.path)
			require.Equal(t, known.Text(), unknown.Text(), form.path)
			require.Empty(t, stranger.Cookies)
		}
		f.mail("ada@example.org", "already-have-account", 1)
		f.mail("ada@example.org", "reset-password", 1)
		f.mail("eve@example.org", "confirm-address", 1)
		for _, m := range f.sent {
			require.False(t, m.Letter.To == "eve@example.org" && m.Template == "reset-password")
		}
		var purposes []string
		require.NoError(t, f.Raw("SELECT purpose FROM links WHERE used_at IS NULL ORDER BY purpose").Scan(&purposes).Error)
		require.Equal(t, []string{"confirm", "none", "none", "reset"}, purposes, "as much is written for one as for the other")
	})
}
