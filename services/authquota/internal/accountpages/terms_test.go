package accountpages_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func acceptedTerms(s *sitekit.Site, accountID string) *api.AcceptedTerms {
	return servicetest.Read[api.AccountDetail](s.Do(http.MethodGet, "/operator/v1/accounts/"+accountID, "")).Person.Terms
}

// A key needs the acceptance of the terms of use, once for each version. The account stores which
// version was accepted and when.
func TestAKeyNeedsTheTermsOfUse(t *testing.T) {
	s, b := person(t)
	require.Nil(t, acceptedTerms(s, b.Account))
	b.Get("/account/security").Shows(http.StatusOK, "You have not accepted the terms of use yet.")
	page := b.Get("/account/keys/new").Shows(http.StatusOK, "I accept the terms of use, version 1", api.UsageRight)
	require.Contains(t, page.Body, `href="/terms"`)
	require.NotContains(t, page.Body, " checked", "not accepted in advance")
	for _, reply := range [][]string{nil, {"termsVersion", "1"}, {"terms", "accepted"}, {"terms", "no", "termsVersion", "1"}} {
		b.Post("/account/keys/new", append([]string{"name", "Mine", "useCase", "a board"}, reply...)...).
			Shows(http.StatusUnprocessableEntity, "There is a problem", "Accept the terms of use to get a key.", "a board")
	}
	require.Empty(t, listed(s, "?all=true"))
	require.Nil(t, acceptedTerms(s, b.Account), "a rejected form accepts nothing")

	id := ask(t, b, "Mine")
	require.Equal(t, &api.AcceptedTerms{Version: "1", AcceptedAt: testkit.Start}, acceptedTerms(s, b.Account))
	accepted := servicetest.Read[api.AuditList](s.Do(http.MethodGet, "/operator/v1/audit?action=terms.accept", "")).Entries
	require.Len(t, accepted, 1)
	require.Equal(t, b.Account, accepted[0].Actor)
	require.JSONEq(t, `{"version":"1"}`, string(accepted[0].Detail))
	b.Get("/account/security").Shows(http.StatusOK, "You accepted version 1", "20 November 2026, 10:00 UTC", "Terms of use accepted")

	s.Advance(time.Minute)
	s.Decide(id, "approve", "")
	collect := "/account/keys/requests/" + id + "/collect"
	page = b.Get(collect).Shows(http.StatusOK, "terms of use", "You accepted this version on 20 November 2026, 10:00 UTC")
	require.NotContains(t, page.Body, "checkbox", "asked once for each version")
	newKey(t, s, b.Post(collect))
	b.Post("/account/keys/new", "name", "Second", "useCase", "a board").Leads("/account/keys")
	require.Equal(t, testkit.Start, acceptedTerms(s, b.Account).AcceptedAt)
}

// A new version needs acceptance again, also for requests made before it.
func TestChangedTermsAskAgain(t *testing.T) {
	before, b := person(t)
	id := ask(t, b, "Mine")
	before.Decide(id, "approve", "")

	s := sitekit.On(t, before.DB, func(c *authquota.Config) { c.TermsVersion = "2" })
	cookies := b.Cookies
	b.Browser = s.Visitor().Browser
	b.Cookies = cookies
	s.Advance(time.Minute)
	b.Get("/account/security").Shows(http.StatusOK, "You accepted version 1", "Version 2 is in effect now.")
	collect := "/account/keys/requests/" + id + "/collect"
	b.Get(collect).Shows(http.StatusOK, "You accepted version 1", "The terms have changed since then.", "I accept the terms of use, version 2.")
	b.Post(collect).Shows(http.StatusUnprocessableEntity, "Accept the terms of use to get a key.", "Mine")
	b.Post(collect, "terms", "accepted", "termsVersion", "1").
		Shows(http.StatusUnprocessableEntity, "The terms of use have changed. Read and accept version 2.")
	require.Empty(t, listedKeys(s))
	newKey(t, s, b.Post(collect, "terms", "accepted", "termsVersion", "2"))
	require.Equal(t, &api.AcceptedTerms{Version: "2", AcceptedAt: testkit.Start.Add(time.Minute)}, acceptedTerms(s, b.Account))

	b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
	require.Equal(t, "2", acceptedTerms(s, b.Account).Version, "kept when the account is closed")
}

// Keys issued by an operator need no acceptance.
func TestAKeyOfAnOperatorNeedsNoAcceptance(t *testing.T) {
	s, b := person(t)
	b.Post("/account/keys/connect", "key", s.Issue("").Key).Leads("/account/keys")
	newKey(t, s, b.Post("/account/keys/"+listedKeys(s)[0].ID+"/rotate"))
	require.Nil(t, acceptedTerms(s, b.Account))
	require.NotContains(t, b.Get("/account/keys").Text(), "terms of use (version")
	require.Contains(t, s.Do(http.MethodGet, "/operator/v1/accounts/"+b.Account, "").Body, `"terms":null`)
}
