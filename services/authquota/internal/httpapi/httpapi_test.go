package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/httpapi"
	"opportunity.internal/services/authquota/internal/tier"
	"opportunity.internal/services/authquota/internal/usage"
)

const (
	token   = "an internal token for tests of 32 or more"
	someKey = "key_0199a7a0000070008000000000000000"
	someAcc = "acc_0199a7a0000070008000000000000000"
)

// parts is a fake of everything behind the API. It records the order of calls and fails as configured.
type parts struct {
	asked []string
	fail  map[string]error
	tier  api.Tier
	moves int // how often the key moves to another account during the lookup
}

func (p *parts) ask(what string) error {
	p.asked = append(p.asked, what)
	return p.fail[what]
}

func (p *parts) Issue(context.Context, string, account.Order, time.Duration, account.KeyRecord) (account.Key, error) {
	return account.Key{}, p.ask("issue")
}
func (p *parts) Keys(context.Context, string, account.Page) ([]account.Key, bool, error) {
	return nil, false, p.ask("keys")
}
func (p *parts) Revoke(context.Context, string, string, bool) (account.Key, error) {
	return account.Key{}, p.ask("revoke")
}
func (p *parts) ImportKeys(context.Context, string, []account.OlderKey, [][]byte) (api.ImportReport, error) {
	return api.ImportReport{}, p.ask("import")
}
func (p *parts) Requests(context.Context, bool, account.Page) ([]account.Request, bool, error) {
	return nil, false, p.ask("requests")
}
func (p *parts) Decide(context.Context, string, string, account.Decide) (account.Request, error) {
	return account.Request{}, p.ask("decide")
}
func (p *parts) Owner(context.Context, []string) (string, error) { return someAcc, p.ask("owner") }
func (p *parts) Resolve(context.Context, []string) (account.Key, bool, error) {
	at := someAcc
	if p.moves > 0 {
		p.moves, at = p.moves-1, "acc_another"
	}
	return account.Key{Account: at, Standing: account.Standing{Granted: p.tier}}, false, p.ask("resolve")
}
func (p *parts) KeyDigests(context.Context, api.KeyPosition, int) (api.KeyDigests, error) {
	return api.KeyDigests{}, p.ask("digests")
}
func (p *parts) Accounts(context.Context, account.Search) ([]account.Listed, bool, error) {
	return nil, false, p.ask("accounts")
}
func (p *parts) Account(context.Context, string) (account.Details, error) {
	return account.Details{}, p.ask("account")
}
func (p *parts) Audit(context.Context, account.AuditSearch) ([]account.AuditEntry, bool, error) {
	return nil, false, p.ask("audit")
}
func (p *parts) ChangeAccount(context.Context, string, string, account.Change) (account.Account, error) {
	return account.Account{}, p.ask("change")
}
func (p *parts) Entitle(context.Context, string, api.Entitlement) (string, error) {
	return someAcc, p.ask("entitle")
}
func (p *parts) Day(context.Context, string) (api.DayUsage, error) {
	return api.DayUsage{}, p.ask("day")
}
func (p *parts) Count(context.Context, usage.Batch) (int, error)     { return 0, p.ask("count") }
func (p *parts) Read(context.Context, string) (int64, error)         { return 7, p.ask("epoch") }
func (p *parts) Deliver(context.Context, string) (left int, e error) { return 0, p.ask("deliver") }
func (p *parts) Reachable(context.Context) error                     { return p.ask("reachable") }

func (p *parts) do(t *testing.T, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	tiers, err := tier.Parse("")
	require.NoError(t, err)
	handler := httpapi.API{
		Errors: problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
		Tokens: peer.Tokens{Values: []string{token}}, Keys: p, Requests: p, Principals: p, Accounts: p, Paid: p, Audit: p, Usage: p, UsageBatches: p, Epochs: p,
		Tiers: tiers, Peppers: [][]byte{[]byte("pepper")}, Now: time.Now, Ready: http.NotFoundHandler(),
	}.Handler()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(api.ActorHeader, "ada")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var question = `{"digests":["` + strings.Repeat("0a", 32) + `"]}`

// The order makes revocations exact: an epoch read after the key could be newer than the response.
func TestTheEpochIsReadBeforeTheKey(t *testing.T) {
	p := &parts{tier: api.Free}
	require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code)
	require.Equal(t, []string{"owner", "epoch", "resolve"}, p.asked)
}

// The epoch must be that of the account that finally holds the key.
func TestMovedKeyIsLookedUpAgain(t *testing.T) {
	p := &parts{tier: api.Free, moves: 1}
	require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code)
	require.Equal(t, []string{"owner", "epoch", "resolve", "owner", "epoch", "resolve"}, p.asked)
	p = &parts{tier: api.Free, moves: 9}
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code)
}

func TestChangeIsDeliveredAfterCommit(t *testing.T) {
	for path, want := range map[string][]string{
		"/operator/v1/keys/" + someKey + "/revoke":      {"revoke", "deliver"},
		"/operator/v1/accounts/" + someAcc + "/suspend": {"change", "deliver"},
		"/operator/v1/accounts/" + someAcc + "/resume":  {"change", "deliver"},
	} {
		body := `{"reason":"x"}`
		if strings.HasSuffix(path, "revoke") {
			body = ""
		}
		p := &parts{}
		require.Equal(t, http.StatusOK, p.do(t, http.MethodPost, path, body).Code)
		require.Equal(t, want, p.asked)

		p = &parts{fail: map[string]error{"deliver": problem.Unavailable(errors.New("secret host"))}}
		answer := p.do(t, http.MethodPost, path, body)
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.Contains(t, answer.Body.String(), "The change is saved")
		require.Equal(t, "1", answer.Header().Get("Retry-After"))

		p = &parts{fail: map[string]error{want[0]: account.NotFound()}}
		require.Equal(t, http.StatusNotFound, p.do(t, http.MethodPost, path, body).Code)
		require.Equal(t, want[:1], p.asked, "what was not done is not delivered")
	}
}

func TestUnknownKeyIsUnavailableDuringRedisOutage(t *testing.T) {
	p := &parts{fail: map[string]error{"owner": account.KeyNotFound()}}
	require.Equal(t, http.StatusNotFound, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code)
	p.fail["reachable"] = problem.Unavailable(errors.New("refused"))
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code)
	require.Equal(t, http.StatusServiceUnavailable, p.do(t, http.MethodGet, "/internal/v1/key-digests", "").Code)
}

// Responses do not contain internal error texts, and distinguish outages from failures.
func TestFailures(t *testing.T) {
	for part, request := range map[string][3]string{
		"issue":    {http.MethodPost, "/operator/v1/keys", `{"useCase":"x"}`},
		"keys":     {http.MethodGet, "/operator/v1/keys", ""},
		"revoke":   {http.MethodPost, "/operator/v1/keys/" + someKey + "/revoke", ""},
		"import":   {http.MethodPost, "/operator/v1/keys/import", ""},
		"requests": {http.MethodGet, "/operator/v1/keys/requests", ""},
		"decide":   {http.MethodPost, "/operator/v1/keys/requests/req_0199a7a0000070008000000000000000/approve", ""},
		"owner":    {http.MethodPost, "/internal/v1/principals", question},
		"epoch":    {http.MethodPost, "/internal/v1/principals", question},
		"resolve":  {http.MethodPost, "/internal/v1/principals", question},
		"accounts": {http.MethodGet, "/operator/v1/accounts", ""},
		"account":  {http.MethodGet, "/operator/v1/accounts/" + someAcc, ""},
		"audit":    {http.MethodGet, "/operator/v1/audit", ""},
		"change":   {http.MethodPost, "/operator/v1/accounts/" + someAcc + "/grant", `{"tier":"free"}`},
		"count":    {http.MethodPost, "/internal/v1/tallies", `{"id":"0199a7a0-0000-7000-8000-000000000000","tallies":[]}`},
		"entitle":  {http.MethodPut, "/internal/v1/entitlements/" + someAcc, `{"tier":"free","paidUntil":null,"renews":false,"trouble":"","version":1}`},
		"day":      {http.MethodGet, "/internal/v1/usage/2026-11-20", ""},
		"digests":  {http.MethodGet, "/internal/v1/key-digests", ""},
	} {
		for status, failure := range map[int]error{
			http.StatusInternalServerError: errors.New("secret host"),
			http.StatusServiceUnavailable:  problem.Unavailable(errors.New("secret host")),
		} {
			p := &parts{tier: api.Free, fail: map[string]error{part: failure}}
			answer := p.do(t, request[0], request[1], request[2])
			require.Equal(t, status, answer.Code, part)
			require.NotContains(t, answer.Body.String(), "secret", part)
		}
	}
	p := &parts{tier: "gold"}
	require.Equal(t, http.StatusInternalServerError, p.do(t, http.MethodPost, "/internal/v1/principals", question).Code, "no limits, no call")
}
