package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	routes "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/httpapi/httpapitest"
)

const someAcc = "acc_0199a7a0000070008000000000000000"

// parts is a fake of the store and epochs behind the API. It records the order of calls and fails as configured.
type parts struct {
	routes.Epochs

	calls []string
	fail  map[string]error
}

func (p *parts) call(what string) error {
	p.calls = append(p.calls, what)
	return p.fail[what]
}

func (p *parts) Accounts(context.Context, accountview.Search) ([]accountview.Listed, bool, error) {
	return nil, false, p.call("accounts")
}
func (p *parts) Account(context.Context, string) (accountview.Details, error) {
	return accountview.Details{}, p.call("account")
}
func (p *parts) Audit(context.Context, accountview.AuditSearch) ([]accountview.AuditEntry, bool, error) {
	return nil, false, p.call("audit")
}
func (p *parts) ChangeAccount(context.Context, string, string, account.Change) (account.Account, error) {
	return account.Account{}, p.call("change")
}
func (p *parts) Deliver(context.Context, string) (int, error) { return 0, p.call("deliver") }

func (p *parts) do(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	accounts := routes.API{Accounts: p, Audit: p, Epochs: p, Now: time.Now}
	return httpapitest.Do(t, accounts.Routes(), method, path, body)
}

func TestChangeIsDeliveredAfterCommit(t *testing.T) {
	for _, act := range []string{"suspend", "resume"} {
		path, body := "/operator/v1/accounts/"+someAcc+"/"+act, `{"reason":"x"}`
		p := &parts{}
		require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, path, body).Code)
		require.Equal(t, []string{"change", "deliver"}, p.calls)

		p = &parts{fail: map[string]error{"deliver": problem.Unavailable(errors.New("refused"))}}
		response := p.do(t, http.MethodPost, path, body)
		require.Equal(t, http.StatusServiceUnavailable, response.Code)
		require.Contains(t, response.Body.String(), "The change is saved")
		require.Equal(t, "1", response.Header().Get("Retry-After"))

		p = &parts{fail: map[string]error{"change": account.NotFound()}}
		require.Equal(t, http.StatusNotFound, p.do(t, http.MethodPost, path, body).Code)
		require.Equal(t, []string{"change"}, p.calls, "what was not done is not delivered")
	}
}

func TestFailures(t *testing.T) {
	for part, request := range map[string][3]string{
		"accounts": {http.MethodGet, "/operator/v1/accounts", ""},
		"account":  {http.MethodGet, "/operator/v1/accounts/" + someAcc, ""},
		"audit":    {http.MethodGet, "/operator/v1/audit", ""},
		"change":   {http.MethodPost, "/operator/v1/accounts/" + someAcc + "/grant", `{"tier":"free"}`},
	} {
		httpapitest.RequireStatuses(t, part, func(failure error) *httptest.ResponseRecorder {
			return (&parts{fail: map[string]error{part: failure}}).do(t, request[0], request[1], request[2])
		})
	}
}
