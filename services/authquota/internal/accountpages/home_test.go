package accountpages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota"
)

func TestFirstSteps(t *testing.T) {
	s, b := person(t)
	p := b.Get("/account").Shows(http.StatusOK, "First steps", "Request a key", "0 of 5 in use", "ada@example.org", "https://api.example/api/v1/opportunities")
	require.NotContains(t, p.Text(), "You have 10")
	require.Equal(t, 1, strings.Count(p.Body, `<li class="done">`))
	require.Contains(t, p.Body, `<a class="button small" href="/account/keys/new">Request a key`)
	require.Equal(t, 1, strings.Count(p.Body, "button small"), "the next step")
	key := s.Issue(b.Account)
	require.Contains(t, b.Get("/account").Body, `<a class="button small" href="/account/explorer">Send the first request</a>`)
	s.Charge(b.Account, 1)
	require.NotContains(t, b.Get("/account").Text(), "First steps")
	s.Charge(b.Account, 0)
	s.Count(key.ID, "2026-11-20", api.CallServed, 1)
	require.NotContains(t, b.Get("/account").Text(), "First steps")
}

func TestKeysInUse(t *testing.T) {
	s, b := person(t)
	var requests []string
	for _, name := range []string{"First", "Second", "Third", "Fourth"} {
		requests = append(requests, ask(t, b, name))
	}
	s.Decide(requests[0], "approve", "")
	s.Decide(requests[1], "approve", "")
	s.Decide(requests[2], "decline", `{"reason":"x"}`)
	b.Get("/account").Shows(http.StatusOK, "3 of 5 in use (pending key requests included)", "One key request is waiting for approval.",
		"2 keys are approved and ready to collect.")
	for _, r := range []string{requests[0], requests[1], requests[3]} {
		b.Post("/account/keys/requests/" + r + "/withdraw").Leads("/account/keys")
	}
	s.Issue(b.Account)
	b.Get("/account").Shows(http.StatusOK, "1 of 5 in use", "expires on 20 November 2027")
	s.Do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","account":"`+b.Account+`","expiresIn":"744h"}`)
	require.NotContains(t, b.Get("/account").Shows(http.StatusOK, "The next one expires on 21 December 2026").Text(), "Soon")
	s.Do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","account":"`+b.Account+`","expiresIn":"720h"}`)
	b.Get("/account").Shows(http.StatusOK, "Soon", "Rotate it before then")
}

func TestOverviewShowsTheTier(t *testing.T) {
	s, b := person(t, func(c *authquota.Config) { c.Tiers = "commercial=300/20000/100" })
	s.Charge(b.Account, 7)
	b.Get("/account").Shows(http.StatusOK, "7 of 100 requests charged, 93 left")
	s.Grant(b.Account, api.Commercial)
	b.Get("/account").Shows(http.StatusOK, "Business", "20,000 requests a day")
}

func TestFewRecoveryCodesAreReported(t *testing.T) {
	s, b := person(t)
	for i := range 7 {
		s.Advance(time.Minute)
		b.Post("/account/sign-out")
		b.EnterPassword()
		b.Post("/account/sign-in/code", "code", b.Codes[i]).Leads("/account")
	}
	b.Get("/account").Shows(http.StatusOK, "You have 3 recovery codes left.")
}
