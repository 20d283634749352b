package authquota_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

func (s *service) acceptedTerms(accountID string) *api.AcceptedTerms {
	s.t.Helper()
	return servicetest.Read[api.AccountDetail](s.do(http.MethodGet, "/operator/v1/accounts/"+accountID, nil)).Person.Terms
}

// The terms of use are shown where a key is requested and collected. A key needs their acceptance, once for each version, and the
// account keeps which version was accepted and when.
func TestAKeyNeedsTheTermsOfUse(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		require.Nil(t, svc.acceptedTerms(b.Account))
		b.Get("/account/security").Shows(http.StatusOK, "You have not accepted the terms of use yet.")

		form := b.Get("/account/keys/new").Shows(http.StatusOK, "I accept the terms of use, version "+api.TermsVersion, "no plan includes the right to redistribute")
		require.Contains(t, form.Body, `href="/terms"`)
		require.NotContains(t, form.Body, " checked", "not accepted in advance")
		for _, reply := range [][]string{nil, {"termsVersion", api.TermsVersion}, {"terms", "accepted"}, {"terms", "no", "termsVersion", api.TermsVersion}} {
			b.Post("/account/keys/new", append([]string{"name", "Mine", "useCase", "a board"}, reply...)...).
				Shows(http.StatusUnprocessableEntity, "There is a problem", "Accept the terms of use to get a key.", "a board")
		}
		require.Empty(t, svc.listRequests("?all=true"))
		require.Nil(t, svc.acceptedTerms(b.Account), "a rejected form accepts nothing")

		id := b.ask("Mine")
		require.Equal(t, &api.AcceptedTerms{Version: api.TermsVersion, AcceptedAt: begin}, svc.acceptedTerms(b.Account))
		accepted := svc.audit("?action=terms.accept").Entries
		require.Len(t, accepted, 1)
		require.Equal(t, b.Account, accepted[0].Actor)
		require.JSONEq(t, `{"version":"`+api.TermsVersion+`"}`, string(accepted[0].Detail))
		b.Get("/account/security").Shows(http.StatusOK, "You accepted version "+api.TermsVersion, "20 November 2026, 10:00 UTC", "Terms of use accepted")

		clock.Advance(time.Minute)
		svc.decide(id, "approve", nil)
		collect := "/account/keys/requests/" + id + "/collect"
		page := b.Get(collect).Shows(http.StatusOK, "terms of use", "You accepted this version on 20 November 2026, 10:00 UTC")
		require.NotContains(t, page.Body, "checkbox", "asked once for each version")
		b.secret(b.Post(collect))
		b.Post("/account/keys/new", "name", "Second", "useCase", "a board").Leads("/account/keys")
		require.Equal(t, begin, svc.acceptedTerms(b.Account).AcceptedAt)
		require.Len(t, svc.audit("?action=terms.accept").Entries, 1)
	})
}

// A new version needs acceptance again, also for requests made before it.
func TestChangedTermsAskAgain(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin, func(c *authquota.Config) { c.TermsVersion = "1" })
		b := svc.browser()
		b.signUp("ada@example.org")
		b.Post("/account/keys/new", "name", "Mine", "useCase", "a board", "terms", "accepted", "termsVersion", "1").Leads("/account/keys")
		id := svc.listRequests("")[0].ID
		svc.decide(id, "approve", nil)
		svc.stop()

		svc = s.start(t, func(c *authquota.Config) { c.TermsVersion, c.Now = "2", clock.Now })
		b = b.at(svc)
		clock.Advance(time.Minute)
		b.Get("/account/security").Shows(http.StatusOK, "You accepted version 1", "Version 2 is in effect now.")
		collect := "/account/keys/requests/" + id + "/collect"
		b.Get(collect).Shows(http.StatusOK, "You accepted version 1", "The terms have changed since then.", "I accept the terms of use, version 2.")
		b.Post(collect).Shows(http.StatusUnprocessableEntity, "Accept the terms of use to get a key.", "Mine")
		b.Post(collect, "terms", "accepted", "termsVersion", "1").Shows(http.StatusUnprocessableEntity, "The terms of use have changed. Read and accept version 2.")
		require.Empty(t, svc.listKeys(""))
		b.secret(b.Post(collect, "terms", "accepted", "termsVersion", "2"))
		require.Equal(t, &api.AcceptedTerms{Version: "2", AcceptedAt: begin.Add(time.Minute)}, svc.acceptedTerms(b.Account))
		require.Len(t, svc.audit("?action=terms.accept").Entries, 2)

		b.Post("/account/security/close", "email", "ada@example.org").Leads("/account/sign-in")
		require.Equal(t, "2", svc.acceptedTerms(b.Account).Version, "kept when the account is closed")
	})
}

// Keys issued or imported by an operator need no acceptance.
func TestAKeyOfAnOperatorNeedsNoAcceptance(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		b.connect(svc.issue(nil).Key).Leads("/account/keys")
		for _, k := range svc.listKeys("") {
			b.secret(b.Post("/account/keys/" + k.ID + "/rotate"))
		}
		var shown struct{ Person map[string]json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(svc.do(http.MethodGet, "/operator/v1/accounts/"+b.Account, nil).Body), &shown))
		require.Equal(t, "null", string(shown.Person["terms"]))
		require.False(t, strings.Contains(b.Get("/account/keys").Text(), "terms"))
	})
}
