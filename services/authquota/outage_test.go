package authquota_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// A database that accepts connections but does not respond is an outage. Without a limit, the page
// would wait as long as its visitor.
func TestPagesDoNotWaitForADatabaseThatHangs(t *testing.T) {
	w, database := storetest.ProxyTo(t, testkit.Schema.Postgres(t))
	s := sitekit.NewStores(t, database, redistest.Start(t))
	svc := s.Serve(t, func(c *authquota.Config) { c.ResponseTimeout = 2 * time.Second })
	b := svc.SignUp("ada@example.org")

	w.Stall()
	svc.Do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`).RequireError(problem.ServiceUnavailable)
	b.Get("/account").Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	w.Restore()

	storetest.Eventually(t, "page", func() bool { return b.Get("/account").Status == http.StatusOK })
}

// During a database outage every request fails with 503. The counters are copied when it is back.
func TestDatabaseOutage(t *testing.T) {
	w, database := storetest.ProxyTo(t, testkit.Schema.Postgres(t))
	s := sitekit.NewStores(t, database, redistest.Start(t))
	svc, _ := startAt(t, s, begin)
	key := svc.Issue("")
	before := svc.Principal(key.Key)
	b := svc.SignUp("ada@example.org")

	w.Cut()
	const unknown = "acc_0199a7a0000070008000000000000000"
	svc.Resolve(key.Key).RequireError(problem.ServiceUnavailable)
	svc.Revoke(key.ID).RequireError(problem.ServiceUnavailable)
	for _, r := range [][3]string{
		{http.MethodGet, "/operator/v1/accounts", ""},
		{http.MethodGet, "/operator/v1/accounts/" + unknown, ""},
		{http.MethodPost, "/operator/v1/accounts/" + unknown + "/grant", `{"tier":"free"}`},
		{http.MethodGet, "/operator/v1/audit", ""},
		{http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`},
		{http.MethodGet, "/operator/v1/keys", ""},
		{http.MethodPost, "/operator/v1/keys/key_0199a7a0000070008000000000000000/revoke", ""},
		{http.MethodPost, "/operator/v1/keys/import",
			`{"sha256":"` + strings.Repeat("0a", 32) +
				`","prefix":"jb-","lastFour":"abcd","useCase":"x","tier":"free","expiresAt":"2027-06-01T00:00:00Z"}`},
		{http.MethodGet, "/operator/v1/keys/requests", ""},
		{http.MethodPost, "/operator/v1/keys/requests/req_0199a7a0000070008000000000000000/approve", ""},
		{http.MethodGet, "/operator/v1/usage?days=7", ""},
		{http.MethodPost, "/operator/v1/announcements", `{"id":"v2","kind":"terms","subject":"a","text":"b","dryRun":true}`},
		{http.MethodPost, "/operator/v1/announcements", `{"id":"v2","kind":"terms","subject":"a","text":"b"}`},
		{http.MethodPost, "/internal/v1/principals", `{"digests":["` + strings.Repeat("0a", 32) + `"]}`},
		{http.MethodGet, "/internal/v1/key-digests", ""},
		{http.MethodPut, "/internal/v1/entitlements/" + unknown,
			`{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":1}`},
		{http.MethodPost, "/internal/v1/usage-batches", `{"id":"0199a7a0-0000-7000-8000-000000000000","counts":[]}`},
	} {
		svc.Do(r[0], r[1], r[2]).RequireError(problem.ServiceUnavailable)
	}
	require.Equal(t, http.StatusServiceUnavailable, svc.Do(http.MethodGet, "/readyz", nil).Status)
	for _, path := range []string{"/account", "/account/keys", "/account/usage", "/account/plan", "/account/security",
		"/account/usage.csv"} {
		p := b.Get(path).Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
		require.Empty(t, p.Header.Get("Content-Disposition"))
		require.NotContains(t, p.Body, "connect", "errors of the driver are for the log")
	}
	b.Post("/account/sign-out").Shows(http.StatusServiceUnavailable)
	b.Post("/account/sign-in", "email", "ada@example.org", "password", testkit.Password).
		Shows(http.StatusServiceUnavailable, "Temporarily unavailable")
	charge(t, s, map[string]int{key.Account: 3})

	w.Restore()
	storetest.Eventually(t, "ready again",
		func() bool { return svc.Do(http.MethodGet, "/readyz", nil).Status == http.StatusOK })
	s.Recovered()
	require.Equal(t, before, svc.Principal(key.Key), "nothing was done")
	require.Len(t, svc.ListKeys(""), 1)
	b.Get("/account").Shows(http.StatusOK)
	storetest.Eventually(t, "copied", func() bool { return svc.ListAccounts("")[0].UsedToday == 3 })
}

// An encryption key is rotated in three steps: add the new one in front, restart to seal everything
// again, remove the old one.
func TestEncryptionKeysRotate(t *testing.T) {
	s := onStores(t)
	older, newer := s.Config().Encryption[0], strings.Repeat("f0", 32)
	with := func(keys ...string) func(*authquota.Config) {
		return func(c *authquota.Config) { c.Encryption = keys }
	}
	svc, clock := startAt(t, s, begin, with(older))
	b := svc.SignUp("ada@example.org")
	shown := testkit.Seed(b.Get("/account/security/authenticator")) // a second seed, of a set-up in progress
	for table, rows := range s.Open(t).Dump(t) {
		require.NotContains(t, rows, b.Seed, table)
		require.NotContains(t, rows, shown, table)
	}
	svc.Stop()

	svc = s.Serve(t, on(clock), with(newer, older))
	db := s.Open(t)
	db.Box = testkit.Box(t, "f0")
	current, _, err := people.NewStore(db.DB).Session(t.Context(), b.Cookies["__Host-session"])
	require.NoError(t, err)
	storetest.Eventually(t, "sealed again at the start", func() bool {
		factors := people.NewStore(db.DB)
		seed, err := factors.Seed(t.Context(), b.Account)
		next, errNext := factors.NewSeed(t.Context(), current)
		return err == nil && errNext == nil && seed == b.Seed && next.Seed == shown
	})
	svc.Stop()

	svc = s.Serve(t, on(clock), with(newer))
	b = svc.Visit(b)
	require.Equal(t, shown, testkit.Seed(b.Get("/account/security/authenticator")))
	clock.Advance(time.Minute)
	b.Other().SignIn()
	require.NotContains(t, svc.Log.String(), b.Seed)
}

// The log has no secrets of people, and the database has only hashes and sealed values.
func TestSecretsAreNotInLogOrDatabase(t *testing.T) {
	s := onStores(t)
	svc, clock := startAt(t, s, begin)
	b := svc.SignUp("ada@example.org")
	secrets := []string{testkit.Password, b.Seed, "another-good-phrase-of-words", "a guess that is wrong"}
	for _, c := range b.Codes {
		secrets = append(secrets, c, strings.ReplaceAll(c, "-", ""))
	}
	clock.Advance(time.Minute)
	o := b.Halfway()
	secrets = append(secrets, o.Cookies["__Host-session"])
	o.Post("/account/lost-authenticator").Leads("/account/lost-authenticator/sent")
	o.Post("/account/sign-in/code", "code", o.Codes[0]).Leads("/account")
	o.Post("/account/sign-in", "email", b.Email, "password", "a guess that is wrong").
		Shows(http.StatusUnprocessableEntity)
	o.Post("/account/forgot", "email", b.Email)
	link := testkit.Links(s.Mail(t, b.Email, "reset-password", 1).Text)[0]
	o.Get(link + "&next=" + testkit.Password).Shows(http.StatusOK)
	o.Post("/account/reset", "token", testkit.Token(o.Get(link)), "password", "another-good-phrase-of-words").
		Leads("/account/sign-in")
	for _, known := range []*testkit.Person{b, o} {
		for _, value := range known.Cookies {
			secrets = append(secrets, value)
		}
	}
	for _, m := range s.Mails(t) {
		for _, l := range testkit.Links(m.Text) {
			if _, token, ok := strings.Cut(l, "token="); ok {
				secrets = append(secrets, token)
			}
		}
	}
	svc.Stop()

	places := kept(t, svc)
	require.Contains(t, places["people"], "ada@example.org")
	require.NotContains(t, places["attempts"], "ada@example.org")
	require.Contains(t, places["log"], "/account/reset")
	require.NotContains(t, places["log"], "ada@example.org")
	require.NotContains(t, places["log"], "203.0.113.7")
	require.Greater(t, len(secrets), 30)
	requireNone(t, secrets, places)
}
