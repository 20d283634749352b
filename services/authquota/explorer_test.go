package authquota_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// The explorer calls as the same principal as a program with the key, whatever became of the key and the account since the form was
// shown.
func TestExplorerCallsAsTheKey(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t, approving)
		b, stranger := svc.browser(), svc.browser()
		b.signUp("ada@example.org")
		stranger.signUp("eve@example.org")
		key, id := b.obtain("Website")
		const form = "/account/explorer/getOpportunity"
		b.Get(form).Shows(http.StatusOK, "Website")
		call := func() (c api.ExplorerCall) {
			t.Helper()
			p := b.Post(form, "id", "maple-scribe", "key", id)
			require.Equal(t, http.StatusNoContent, p.Status, "%s", p.Body)
			require.NoError(t, json.Unmarshal([]byte(p.Header.Get(api.ExplorerHeader)), &c))
			return c
		}
		require.Equal(t, api.ExplorerCall{Principal: svc.principal(key), Target: "/api/v1/opportunities/maple-scribe", Header: http.Header{}}, call())

		stranger.Post(form, "id", "maple-scribe", "key", id).Shows(http.StatusUnprocessableEntity, "Select one of your active keys.")

		svc.change(b.Account, "suspend", map[string]string{"reason": "test"})
		require.True(t, call().Principal.Suspended)
		require.Equal(t, svc.principal(key), call().Principal)
		svc.change(b.Account, "resume", nil)
		svc.revoke(id)
		require.NotNil(t, call().Principal.RevokedAt)
		require.Equal(t, svc.principal(key), call().Principal)
	})
}
