// Package sitekit runs authquota as in production, on the stores of one test: with New for tests of
// pages and routes, with Stores for tests of the whole service. Package testkit has the people and
// the databases.
package sitekit

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// Site is a running service. One made by New has no background loops, so mails stay in the outbox,
// and has the tests' own stores on the same database.
type Site struct {
	testkit.DB
	*servicetest.Service
	*Stores

	People  *people.Store
	Keys    *keys.Store
	Usage   *keyusage.Store
	Notices *notices.Store

	t       testing.TB
	retries atomic.Int32 // requests that Do has repeated
}

// New returns a Site on a new SQLite database and an embedded Redis. It is 10:00 on 20 November
// 2026. The version of the terms of use is 1. adjust changes the settings.
func New(t testing.TB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	return On(t, testkit.OnSQLite(t), adjust...)
}

// On returns a Site like that of New on a database.
func On(t testing.TB, db testkit.DB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	s := withRedis(t, db.DatabaseURL).Run(t, append([]func(*authquota.Config){func(c *authquota.Config) {
		c.TermsVersion, c.Now, c.NoLoops = "1", db.Now, true
	}}, adjust...)...)
	s.DB, s.People, s.Keys, s.Usage = db, people.NewStore(db.DB), keys.NewStore(db.DB), keyusage.NewStore(db.DB)
	s.Notices = notices.NewStore(db.DB, nil)
	s.WaitReady()
	return s
}

// Serve runs the service and waits until it is ready.
func (s *Stores) Serve(t testing.TB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	site := s.Run(t, adjust...)
	site.WaitReady()
	return site
}

// Run runs the service. adjust changes its settings.
func (s *Stores) Run(t testing.TB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	cfg := s.Config()
	for _, a := range adjust {
		a(&cfg)
	}
	if s.clock = cfg.Now; s.clock == nil {
		s.clock = time.Now
	}
	site := &Site{Stores: s, t: t}
	site.Service = servicetest.Start(t, peer.Authquota,
		func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
			cfg.Server, cfg.Telemetry = server, telemetry
			cfg.Telemetry.LogLevel = slog.LevelDebug
			return authquota.Run(ctx, cfg)
		})
	t.Cleanup(func() { noteShown(site.Log.String()) })
	return site
}

// Stop stops the service. That of Redis stops Redis.
func (s *Site) Stop() { s.Service.Stop() }

// Now returns the time of the service.
func (s *Site) Now() time.Time { return s.clock() }

// maxRetries is the maximum number of repeated requests of one service after an outage.
const maxRetries = 20

// Do sends a request as the gateway or billing does. After an outage that the test has ended, it
// repeats a request that got a 503, at most maxRetries times for the service: connections in its
// pools are broken. In every other test a 503 is the response.
func (s *Site) Do(method, path string, body any) servicetest.Response {
	s.t.Helper()
	for {
		a := s.Service.Do(method, path, body)
		if a.Status != http.StatusServiceUnavailable || !s.recovering {
			return a
		}
		require.LessOrEqual(s.t, s.retries.Add(1), int32(maxRetries), "503 although all stores are available again")
	}
}

// Charge sets the requests charged to an account today; those of the last minute are three of them
// at most.
func (s *Site) Charge(accountID string, calls int) {
	s.t.Helper()
	c, ctx := s.Client(), s.t.Context()
	require.NoError(s.t, c.HSet(ctx, counter.Day(counter.DayOf(s.Now())), accountID, calls).Err())
	now := storetest.Must(c.Time(ctx).Result())(s.t)
	require.NoError(s.t, c.Del(ctx, counter.Window(accountID)).Err())
	for range min(calls, 3) {
		require.NoError(s.t, c.LPush(ctx, counter.Window(accountID), now.UnixMicro()).Err())
	}
}

// Epoch returns the epoch of an account that is in effect.
func (s *Site) Epoch(accountID string) int64 {
	s.t.Helper()
	return storetest.Must(s.Client().HGet(s.t.Context(), counter.Epochs, accountID).Int64())(s.t)
}

// Visitor returns a person without an account.
func (s *Site) Visitor() *testkit.Person {
	return testkit.NewPerson(s.t, testkit.VisitURL(s.t, s.URL), s.Now)
}

// Visit returns the person with the browser at this service.
func (s *Site) Visit(p *testkit.Person) *testkit.Person {
	moved := *p
	moved.Browser = testkit.VisitURL(s.t, s.URL)
	moved.Cookies = p.Cookies
	return &moved
}

// SignUp returns a person who has signed up and is signed in.
func (s *Site) SignUp(email string) *testkit.Person {
	s.t.Helper()
	p, db := s.Visitor(), s.DB
	if db.DB == nil {
		db = s.Open(s.t)
	}
	p.SignUp(db, email)
	return p
}

// Obtain requests a key that needs the acceptance of a version of the terms of use, has it approved
// and collects it. It returns the key and its ID.
func (s *Site) Obtain(p *testkit.Person, name, terms string) (key, id string) {
	s.t.Helper()
	r := p.RequestKey(name, terms)
	s.Decide(r, "approve", "")
	key = testkit.NewKey(p.Post("/account/keys/requests/" + r + "/collect"))
	return key, s.Principal(key).Key
}

// Issue issues a key to an account; to a new one if accountID is empty. fields are pairs that
// override those of the order.
func (s *Site) Issue(accountID string, fields ...any) api.IssuedKey {
	s.t.Helper()
	order := map[string]any{"useCase": "testing", "account": accountID}
	for i := 0; i < len(fields); i += 2 {
		order[fields[i].(string)] = fields[i+1]
	}
	return servicetest.Read[api.IssuedKey](s.Do(http.MethodPost, "/operator/v1/keys", order))
}

// Revoke revokes a key, as testkit.Actor.
func (s *Site) Revoke(id string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPost, "/operator/v1/keys/"+id+"/revoke", nil)
}

// Act suspends, resumes or grants, as testkit.Actor.
func (s *Site) Act(accountID, act string, body any) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPost, "/operator/v1/accounts/"+accountID+"/"+act, body)
}

// Suspend suspends an account.
func (s *Site) Suspend(accountID, reason string) {
	s.t.Helper()
	servicetest.Read[api.Account](s.Act(accountID, "suspend", map[string]string{"reason": reason}))
}

// Resume resumes an account.
func (s *Site) Resume(accountID string) {
	s.t.Helper()
	servicetest.Read[api.Account](s.Act(accountID, "resume", `{"reason":"resolved"}`))
}

// Grant grants a tier.
func (s *Site) Grant(accountID string, tier api.Tier) {
	s.t.Helper()
	servicetest.Read[api.Account](s.Act(accountID, "grant", map[string]any{"tier": tier}))
}

// ListKeys returns the keys that a query selects.
func (s *Site) ListKeys(query string) []api.ListedKey {
	s.t.Helper()
	return servicetest.Read[api.KeyList](s.Do(http.MethodGet, "/operator/v1/keys"+query, nil)).Keys
}

// ListAccounts returns the accounts that a query selects.
func (s *Site) ListAccounts(query string) []api.ListedAccount {
	s.t.Helper()
	return servicetest.Read[api.AccountList](s.Do(http.MethodGet, "/operator/v1/accounts"+query, nil)).Accounts
}

// Account returns the details of an account.
func (s *Site) Account(id string) api.AccountDetail {
	s.t.Helper()
	return servicetest.Read[api.AccountDetail](s.Do(http.MethodGet, "/operator/v1/accounts/"+id, nil))
}

// AuditEntries returns the entries of the audit log that a query selects, newest first.
func (s *Site) AuditEntries(query string) []api.AuditEntry {
	s.t.Helper()
	return servicetest.Read[api.AuditList](s.Do(http.MethodGet, "/operator/v1/audit"+query, nil)).Entries
}

// Entitle stores an entitlement, as billing does.
func (s *Site) Entitle(accountID string, e api.Entitlement) {
	s.t.Helper()
	response := s.Do(http.MethodPut, "/internal/v1/entitlements/"+accountID, e)
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Count reports requests of a key with one outcome on a day, as gateways do.
func (s *Site) Count(key, day string, outcome api.CallOutcome, calls int) {
	s.t.Helper()
	response := s.Do(http.MethodPost, "/internal/v1/usage-batches", api.UsageBatch{
		ID: uuid.Must(uuid.NewV7()).String(), Counts: []api.UsageCount{
			{Day: day, Key: key, Outcome: outcome, Calls: calls, LastAt: s.Now()},
		},
	})
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Decide approves or declines a key request.
func (s *Site) Decide(request, act string, body any) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

// Resolve looks up a key of any form, as gateways with these peppers do.
func (s *Site) Resolve(key string, peppers ...[]byte) servicetest.Response {
	s.t.Helper()
	if len(peppers) == 0 {
		peppers = [][]byte{testkit.Pepper}
	}
	digests := apikey.OlderOf(key).Digests(peppers)
	if parsed, ok := apikey.Parse(key); ok {
		digests = parsed.Digests(peppers)
	}
	return s.Do(http.MethodPost, "/internal/v1/principals", api.PrincipalQuery{Digests: digests})
}

// Principal returns the principal of a key.
func (s *Site) Principal(key string, peppers ...[]byte) api.Principal {
	s.t.Helper()
	return servicetest.Read[api.Principal](s.Resolve(key, peppers...))
}
