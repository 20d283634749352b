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

func TestEntitlementIsDeliveredToItsHolder(t *testing.T) {
	p := &parts{}
	require.Equal(t, http.StatusNoContent, p.put(t).Code)
	require.Equal(t, []string{"acc_holder"}, p.delivered)
}

func TestFailures(t *testing.T) {
	httpapitest.RequireStatuses(t, "entitle", func(failure error) *httptest.ResponseRecorder { return (&parts{entitle: failure}).put(t) })
	p := &parts{deliver: context.DeadlineExceeded}
	require.Equal(t, http.StatusServiceUnavailable, p.put(t).Code)
}
