package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/testkit"
)

const unknown = "acc_0199a7a0000070008000000000000000"

// A change is saved during an outage of Redis, and the response says so. It takes effect once: what was not done raises no epoch.
func TestChangesTakeEffectAfterTheyWereCommitted(t *testing.T) {
	s := testkit.NewSite(t)
	key := s.Issue("")
	for path, body := range map[string]string{
		"/operator/v1/accounts/" + key.Account + "/suspend": `{"reason":"x"}`,
		"/operator/v1/accounts/" + key.Account + "/resume":  `{"reason":"x"}`,
		"/operator/v1/accounts/" + key.Account + "/grant":   `{"tier":"developer"}`,
		"/operator/v1/keys/" + key.ID + "/revoke":           "",
	} {
		before := s.Epoch
		require.Equal(t, http.StatusOK, s.Do(http.MethodPost, path, body).Status, path)
		s.RedisOutage = true
		response := s.Do(http.MethodPost, path, body)
		response.RequireError(problem.ServiceUnavailable, "The change is saved")
		require.Equal(t, "1", response.Header.Get("Retry-After"))
		s.RedisOutage = false
		require.GreaterOrEqual(t, s.Epoch, before)
	}
	require.NotNil(t, s.Principal(key.Key).RevokedAt)
	require.Equal(t, api.Developer, s.Principal(key.Key).Tier)

	epoch := s.Epoch
	s.Do(http.MethodPost, "/operator/v1/accounts/"+unknown+"/suspend", `{"reason":"x"}`).RequireError(problem.NotFound)
	s.Do(http.MethodPost, "/operator/v1/keys/key_0199a7a0000070008000000000000000/revoke", "").RequireError(problem.NotFound)
	require.Equal(t, epoch, s.Epoch)
}

func query(digest string) string { return `{"digests":["` + digest + `"]}` }

func TestUnknownKeyIsUnavailableDuringRedisOutage(t *testing.T) {
	s := testkit.NewSite(t)
	body := query(strings.Repeat("0a", 32))
	s.Do(http.MethodPost, "/internal/v1/principals", body).RequireError(problem.NotFound)
	s.RedisOutage = true
	s.Do(http.MethodPost, "/internal/v1/principals", body).RequireError(problem.ServiceUnavailable)
	s.Do(http.MethodGet, "/internal/v1/key-digests", "").RequireError(problem.ServiceUnavailable)
}

func TestKeyOfUnknownTierIsNotResolved(t *testing.T) {
	s := testkit.NewSite(t)
	key := s.Issue("")
	require.NoError(t, s.Exec("UPDATE accounts SET tier = 'gold'").Error)
	response := s.Resolve(key.Key)
	response.RequireError(problem.InternalError)
	require.Equal(t, http.StatusInternalServerError, response.Status, "no limits, no call")
}

func TestEntitlementIsAppliedToItsHolder(t *testing.T) {
	s := testkit.NewSite(t)
	key, b := s.Issue(""), s.SignUp("ada@example.org")
	b.Post("/account/keys/connect", "key", key.Key).Leads("/account/keys")
	epoch := s.Epoch
	s.Entitle(key.Account, api.Entitlement{Tier: api.Free, Version: 1})
	require.Greater(t, s.Epoch, epoch)
	s.RedisOutage = true
	body := `{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":2}`
	s.Do(http.MethodPut, "/internal/v1/entitlements/"+key.Account, body).RequireError(problem.ServiceUnavailable, "The change is saved")
}

func TestDryRunAnnouncesNothing(t *testing.T) {
	s := testkit.NewSite(t)
	s.SignUp("ada@example.org")
	const path = "/operator/v1/announcements"
	w := s.Do(http.MethodPost, path, `{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here.","dryRun":true}`)
	require.Equal(t, http.StatusOK, w.Status, w.Body)
	require.Contains(t, w.Body, `"subject":"API change: Version 2"`)
	require.Contains(t, w.Body, `https://api.example/account/notices`)
	require.Contains(t, w.Body, `"recipients":1,"posted":0,"createdAt":null`)
	require.NotContains(t, s.Actions(t, testkit.Actor), "announcement.create")

	w = s.Do(http.MethodPost, path, `{"id":"v2","kind":"api-change","subject":"Version 2","text":"It is here."}`)
	require.Equal(t, http.StatusOK, w.Status, w.Body)
	require.Contains(t, w.Body, `"createdAt":"2026-11-20T10:00:00Z"`)
	s.Do(http.MethodPost, path, `{"id":"v2"}`).RequireError(problem.InvalidParameter)
}

// Every route is unavailable during an outage of the database. The response does not contain the text of the driver.
func TestFailuresOfTheDatabase(t *testing.T) {
	batch := `{"id":"0199a7a0-0000-7000-8000-000000000000","counts":[]}`
	entitlement := `{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":1}`
	s := testkit.NewSite(t)
	s.Break()
	for _, r := range [][3]string{
		{http.MethodGet, "/operator/v1/accounts", ""},
		{http.MethodGet, "/operator/v1/accounts/" + unknown, ""},
		{http.MethodPost, "/operator/v1/accounts/" + unknown + "/grant", `{"tier":"free"}`},
		{http.MethodGet, "/operator/v1/audit", ""},
		{http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`},
		{http.MethodGet, "/operator/v1/keys", ""},
		{http.MethodPost, "/operator/v1/keys/key_0199a7a0000070008000000000000000/revoke", ""},
		{http.MethodPost, "/operator/v1/keys/import", `{"sha256":"` + strings.Repeat("0a", 32) + `","prefix":"jb-","lastFour":"abcd","useCase":"x","tier":"free","expiresAt":"2027-06-01T00:00:00Z"}`},
		{http.MethodGet, "/operator/v1/keys/requests", ""},
		{http.MethodPost, "/operator/v1/keys/requests/req_0199a7a0000070008000000000000000/approve", ""},
		{http.MethodGet, "/operator/v1/usage?days=7", ""},
		{http.MethodPost, "/operator/v1/announcements", `{"id":"v2","kind":"terms","subject":"a","text":"b","dryRun":true}`},
		{http.MethodPost, "/operator/v1/announcements", `{"id":"v2","kind":"terms","subject":"a","text":"b"}`},
		{http.MethodPost, "/internal/v1/principals", query(strings.Repeat("0a", 32))},
		{http.MethodGet, "/internal/v1/key-digests", ""},
		{http.MethodPut, "/internal/v1/entitlements/" + unknown, entitlement},
		{http.MethodPost, "/internal/v1/usage-batches", batch},
	} {
		response := s.Do(r[0], r[1], r[2])
		require.Equal(t, http.StatusServiceUnavailable, response.Status, "%s %s: %s", r[0], r[1], response.Body)
		require.NotContains(t, response.Body, "sql:")
	}
	s.RedisOutage = true
	s.Do(http.MethodPost, "/internal/v1/usage/2026-11-20/restore", "").RequireError(problem.ServiceUnavailable)
}
