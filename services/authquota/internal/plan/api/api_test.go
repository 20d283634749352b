package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	routes "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/httpapi/httpapitest"
)

// parts is a fake of the store and epochs behind the API.
type parts struct {
	routes.Epochs

	entitle, deliver error
	delivered        []string
	see              error
	seen             api.FeedMark
}

func (p *parts) Entitle(context.Context, string, api.Entitlement) (string, error) {
	return "acc_holder", p.entitle
}
func (p *parts) Deliver(_ context.Context, account string) (int, error) {
	p.delivered = append(p.delivered, account)
	return 0, p.deliver
}

func (p *parts) put(t *testing.T) *httptest.ResponseRecorder {
	t.Helper()
	return httpapitest.Do(t, routes.API{Entitlements: p, Epochs: p}.Routes(), http.MethodPut,
		"/internal/v1/entitlements/acc_0199a7a0000070008000000000000000", `{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":1}`)
}

func (p *parts) SeenChange(context.Context) (api.FeedMark, error) { return p.seen, p.see }
func (p *parts) SeeChange(_ context.Context, change api.FeedMark) error {
	p.seen = change
	return p.see
}

func (p *parts) seenPath(t *testing.T, method, body string) *httptest.ResponseRecorder {
	t.Helper()
	return httpapitest.Do(t, routes.API{Billing: p}.Routes(), method, api.SeenPath, body)
}

func TestNewestChangeOfBillingIsReturned(t *testing.T) {
	p := &parts{}
	require.Equal(t, http.StatusNoContent, p.seenPath(t, http.MethodPost, `{"sequence":7,"id":"x"}`).Code)
	require.JSONEq(t, `{"mark":{"sequence":7,"id":"x"},"checkpoint":{"number":0,"note":""}}`, p.seenPath(t, http.MethodGet, "").Body.String())
	for _, body := range []string{`{}`, `{"sequence":7,"id":""}`, `{"sequence":0,"id":"x"}`, `[]`} {
		require.Equal(t, http.StatusBadRequest, p.seenPath(t, http.MethodPost, body).Code, body)
	}
}

func TestEntitlementIsDeliveredToItsHolder(t *testing.T) {
	p := &parts{}
	require.Equal(t, http.StatusNoContent, p.put(t).Code)
	require.Equal(t, []string{"acc_holder"}, p.delivered)
}

func TestFailures(t *testing.T) {
	httpapitest.RequireStatuses(t, "entitle", func(failure error) *httptest.ResponseRecorder { return (&parts{entitle: failure}).put(t) })
	for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: `{"sequence":7,"id":"x"}`} {
		httpapitest.RequireStatuses(t, "seen", func(failure error) *httptest.ResponseRecorder {
			return (&parts{see: failure}).seenPath(t, method, body)
		})
	}
	p := &parts{deliver: context.DeadlineExceeded}
	require.Equal(t, http.StatusServiceUnavailable, p.put(t).Code)
}
