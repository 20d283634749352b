package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	routes "opportunity.internal/services/authquota/internal/api"
	"opportunity.internal/services/authquota/internal/httpapi/httpapitest"
	"opportunity.internal/services/authquota/internal/keys"
)

const (
	someKey = "key_0199a7a0000070008000000000000000"
	someAcc = "acc_0199a7a0000070008000000000000000"
)

// parts is a fake of the stores and epochs behind the API. It records the order of calls and fails as configured.
type parts struct {
	calls []string
	fail  map[string]error
	tier  api.Tier
	moves int // how often the key moves to another account during the lookup
}

func (p *parts) call(what string) error {
	p.calls = append(p.calls, what)
	return p.fail[what]
}

func (p *parts) Issue(context.Context, string, keys.Order, time.Duration, keys.Record) (keys.Key, error) {
	return keys.Key{}, p.call("issue")
}
func (p *parts) Keys(context.Context, keys.Filter, account.Page) ([]keys.Key, bool, error) {
	return nil, false, p.call("keys")
}
func (p *parts) Revoke(context.Context, string, string, bool) (keys.Key, error) {
	return keys.Key{}, p.call("revoke")
}
func (p *parts) ImportKeys(context.Context, string, []keys.Older, [][]byte) (api.ImportReport, error) {
	return api.ImportReport{}, p.call("import")
}
func (p *parts) Requests(context.Context, bool, account.Page) ([]keys.Request, bool, error) {
	return nil, false, p.call("requests")
}
func (p *parts) Decide(context.Context, string, string, keys.Decide) (keys.Request, error) {
	return keys.Request{}, p.call("decide")
}
func (p *parts) Owner(context.Context, []string) (string, error) { return someAcc, p.call("owner") }
func (p *parts) Resolve(context.Context, []string) (keys.Key, bool, error) {
	at := someAcc
	if p.moves > 0 {
		p.moves, at = p.moves-1, "acc_another"
	}
	return keys.Key{Account: at, Standing: account.Standing{Granted: p.tier}}, false, p.call("resolve")
}
func (p *parts) KeyDigests(context.Context, api.KeyPosition, int) (api.KeyDigests, error) {
	return api.KeyDigests{}, p.call("digests")
}
func (p *parts) Read(context.Context, string) (int64, error)  { return 7, p.call("epoch") }
func (p *parts) Deliver(context.Context, string) (int, error) { return 0, p.call("deliver") }
func (p *parts) Reachable(context.Context) error              { return p.call("reachable") }

func (p *parts) do(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	tiers, err := account.ParseTiers("")
	require.NoError(t, err)
	keys := routes.API{
		Keys: p, Requests: p, Principals: p, Epochs: p, Tiers: tiers, Peppers: [][]byte{[]byte("pepper")}, Now: time.Now,
	}
	return httpapitest.Do(t, keys.Routes(), method, path, body)
}

var query = `{"digests":["` + strings.Repeat("0a", 32) + `"]}`

// The order makes revocations exact: an epoch read after the key could be newer than the response.
func TestTheEpochIsReadBeforeTheKey(t *testing.T) {
	p := &parts{tier: api.Free}
	require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code)
	require.Equal(t, []string{"owner", "epoch", "resolve"}, p.calls)
}

// The epoch must be that of the account that finally holds the key.
func TestMovedKeyIsLookedUpAgain(t *testing.T) {
	p := &parts{tier: api.Free, moves: 1}
	require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code)
	require.Equal(t, []string{"owner", "epoch", "resolve", "owner", "epoch", "resolve"}, p.calls)
	p = &parts{tier: api.Free, moves: 9}
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code)
}

func TestRevocationIsDeliveredAfterCommit(t *testing.T) {
	const path = "/operator/v1/keys/" + someKey + "/revoke"
	p := &parts{}
	require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, path, "").Code)
	require.Equal(t, []string{"revoke", "deliver"}, p.calls)

	p = &parts{fail: map[string]error{"deliver": problem.Unavailable(errors.New("refused"))}}
	response := p.do(t, http.MethodPost, path, "")
	require.Equal(t, http.StatusServiceUnavailable, response.Code)
	require.Contains(t, response.Body.String(), "The change is saved")
	require.Equal(t, "1", response.Header().Get("Retry-After"))

	p = &parts{fail: map[string]error{"revoke": keys.NotFound()}}
	require.Equal(t, http.StatusNotFound, p.do(t, http.MethodPost, path, "").Code)
	require.Equal(t, []string{"revoke"}, p.calls, "what was not done is not delivered")
}

func TestUnknownKeyIsUnavailableDuringRedisOutage(t *testing.T) {
	p := &parts{fail: map[string]error{"owner": keys.NotFound()}}
	require.Equal(t, http.StatusNotFound, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code)
	p.fail["reachable"] = problem.Unavailable(errors.New("refused"))
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code)
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodGet, "/internal/v1/key-digests", "").Code)
}

func TestKeyOfUnknownTierIsNotResolved(t *testing.T) {
	p := &parts{tier: "gold"}
	require.Equal(t, http.StatusInternalServerError, p.do(t, http.MethodPost, "/internal/v1/principals", query).Code, "no limits, no call")
}

func TestFailures(t *testing.T) {
	for part, request := range map[string][3]string{
		"issue":    {http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`},
		"keys":     {http.MethodGet, "/operator/v1/keys", ""},
		"revoke":   {http.MethodPost, "/operator/v1/keys/" + someKey + "/revoke", ""},
		"import":   {http.MethodPost, "/operator/v1/keys/import", ""},
		"requests": {http.MethodGet, "/operator/v1/keys/requests", ""},
		"decide":   {http.MethodPost, "/operator/v1/keys/requests/req_0199a7a0000070008000000000000000/approve", ""},
		"owner":    {http.MethodPost, "/internal/v1/principals", query},
		"epoch":    {http.MethodPost, "/internal/v1/principals", query},
		"resolve":  {http.MethodPost, "/internal/v1/principals", query},
		"digests":  {http.MethodGet, "/internal/v1/key-digests", ""},
	} {
		httpapitest.RequireStatuses(t, part, func(failure error) *httptest.ResponseRecorder {
			p := &parts{tier: api.Free, fail: map[string]error{part: failure}}
			return p.do(t, request[0], request[1], request[2])
		})
	}
}
