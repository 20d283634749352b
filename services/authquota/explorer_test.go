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
		b.signIn("ada@example.org")
		stranger.signIn("eve@example.org")
		key, id := b.obtain("Website")
		const form = "/account/explorer/getOpportunity"
		b.get(form).shows(http.StatusOK, "Website")
		call := func() (c api.ExplorerCall) {
			t.Helper()
			p := b.post(form, "id", "maple-scribe", "key", id)
			require.Equal(t, http.StatusNoContent, p.status, "%s", p.body)
			require.NoError(t, json.Unmarshal([]byte(p.header.Get(api.ExplorerHeader)), &c))
			return c
		}
		require.Equal(t, api.ExplorerCall{Principal: svc.principal(key), Target: "/api/v1/opportunities/maple-scribe", Header: http.Header{}}, call())

		stranger.post(form, "id", "maple-scribe", "key", id).shows(http.StatusUnprocessableEntity, "Select one of your active keys.")

		svc.change(b.account, "suspend", map[string]string{"reason": "test"})
		require.True(t, call().Principal.Suspended)
		require.Equal(t, svc.principal(key), call().Principal)
		svc.change(b.account, "resume", nil)
		svc.revoke(id)
		require.NotNil(t, call().Principal.RevokedAt)
		require.Equal(t, svc.principal(key), call().Principal)
	})
}
