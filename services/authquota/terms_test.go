package authquota_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota"
)

func (s *service) acceptedTerms(accountID string) *api.AcceptedTerms {
	s.t.Helper()
	return read[api.AccountDetail](s.do(http.MethodGet, "/operator/v1/accounts/"+accountID, nil)).Person.Terms
}

// The terms of use are shown where a key is requested and collected. A key needs their acceptance, once for each version, and the
// account keeps which version was accepted and when.
func TestAKeyNeedsTheTermsOfUse(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		require.Nil(t, svc.acceptedTerms(b.account))
		b.get("/account/security").shows(http.StatusOK, "You have not accepted the terms of use yet.")

		form := b.get("/account/keys/new").shows(http.StatusOK, "I accept the terms of use, version "+api.TermsVersion, "no plan includes the right to redistribute")
		require.Contains(t, form.body, `href="/terms"`)
		require.NotContains(t, form.body, " checked", "not accepted in advance")
		for _, reply := range [][]string{nil, {"termsVersion", api.TermsVersion}, {"terms", "accepted"}, {"terms", "no", "termsVersion", api.TermsVersion}} {
			b.post("/account/keys/new", append([]string{"name", "Mine", "useCase", "a board"}, reply...)...).
				shows(http.StatusUnprocessableEntity, "There is a problem", "Accept the terms of use to get a key.", "a board")
		}
		require.Empty(t, svc.listRequests("?all=true"))
		require.Nil(t, svc.acceptedTerms(b.account), "a rejected form accepts nothing")

		id := b.ask("Mine")
		require.Equal(t, &api.AcceptedTerms{Version: api.TermsVersion, AcceptedAt: begin}, svc.acceptedTerms(b.account))
		accepted := svc.audit("?action=terms.accept").Entries
		require.Len(t, accepted, 1)
		require.Equal(t, b.account, accepted[0].Actor)
		require.JSONEq(t, `{"version":"`+api.TermsVersion+`"}`, string(accepted[0].Detail))
		b.get("/account/security").shows(http.StatusOK, "You accepted version "+api.TermsVersion, "20 November 2026, 10:00 UTC", "Terms of use accepted")

		clock.move(time.Minute)
		svc.decide(id, "approve", nil)
		collect := "/account/keys/requests/" + id + "/collect"
		page := b.get(collect).shows(http.StatusOK, "terms of use", "You accepted this version on 20 November 2026, 10:00 UTC")
		require.NotContains(t, page.body, "checkbox", "asked once for each version")
		b.secret(b.post(collect))
		b.post("/account/keys/new", "name", "Second", "useCase", "a board").leads("/account/keys")
		require.Equal(t, begin, svc.acceptedTerms(b.account).AcceptedAt)
		require.Len(t, svc.audit("?action=terms.accept").Entries, 1)
	})
}

// A new version needs acceptance again, also for requests made before it.
func TestChangedTermsAskAgain(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startMoved(t, begin, func(c *authquota.Config) { c.TermsVersion = "1" })
		b := svc.browser()
		b.signIn("ada@example.org")
		b.post("/account/keys/new", "name", "Mine", "useCase", "a board", "terms", "accepted", "termsVersion", "1").leads("/account/keys")
		id := svc.listRequests("")[0].ID
		svc.decide(id, "approve", nil)
		svc.stop()

		svc = s.start(t, func(c *authquota.Config) { c.TermsVersion, c.Now = "2", clock.Now })
		svc.now, b.svc = clock.Now, svc
		clock.move(time.Minute)
		b.get("/account/security").shows(http.StatusOK, "You accepted version 1", "Version 2 is in effect now.")
		collect := "/account/keys/requests/" + id + "/collect"
		b.get(collect).shows(http.StatusOK, "You accepted version 1", "The terms have changed since then.", "I accept the terms of use, version 2.")
		b.post(collect).shows(http.StatusUnprocessableEntity, "Accept the terms of use to get a key.", "Mine")
		b.post(collect, "terms", "accepted", "termsVersion", "1").shows(http.StatusUnprocessableEntity, "The terms of use have changed. Read and accept version 2.")
		require.Empty(t, svc.listKeys(""))
		b.secret(b.post(collect, "terms", "accepted", "termsVersion", "2"))
		require.Equal(t, &api.AcceptedTerms{Version: "2", AcceptedAt: begin.Add(time.Minute)}, svc.acceptedTerms(b.account))
		require.Len(t, svc.audit("?action=terms.accept").Entries, 2)

		b.post("/account/security/close", "email", "ada@example.org").leads("/account/sign-in")
		require.Equal(t, "2", svc.acceptedTerms(b.account).Version, "kept when the account is closed")
	})
}

// Keys issued or imported by an operator need no acceptance.
func TestAKeyOfAnOperatorNeedsNoAcceptance(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		b.connect(svc.issue(nil).Key).leads("/account/keys")
		for _, k := range svc.listKeys("") {
			b.secret(b.post("/account/keys/" + k.ID + "/rotate"))
		}
		var shown struct{ Person map[string]json.RawMessage }
		require.NoError(t, json.Unmarshal(svc.do(http.MethodGet, "/operator/v1/accounts/"+b.account, nil).body, &shown))
		require.Equal(t, "null", string(shown.Person["terms"]))
		require.False(t, strings.Contains(b.get("/account/keys").text(), "terms"))
	})
}
