// Package sitekit runs authquota as in production, on the stores of one test: Site for tests of
// pages and routes, Stores for tests of the whole service. Package testkit has the people and the
// databases.
package sitekit

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
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
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/courier"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/notices"
	"opportunity.internal/services/authquota/internal/people"
	"opportunity.internal/services/authquota/internal/testkit"
)

// Site is the service as in production, but without its background loops: mails stay in the outbox.
// Its stores are the tests' own, on the same database.
type Site struct {
	testkit.DB
	*servicetest.Service
	Stores

	People  *people.Store
	Keys    *keys.Store
	Usage   *keyusage.Store
	Notices *notices.Store

	t testing.TB
}

// New returns a Site on a new SQLite database and an embedded Redis. It is 10:00 on 20 November
// 2026. The version of the terms of use is 1. adjust changes the settings.
func New(t testing.TB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	return On(t, testkit.OnSQLite(t), adjust...)
}

// On returns a Site on a database.
func On(t testing.TB, db testkit.DB, adjust ...func(*authquota.Config)) *Site {
	t.Helper()
	s := &Site{
		DB: db, Stores: withRedis(t, db.DatabaseURL), t: t,
		People: people.NewStore(db.DB), Keys: keys.NewStore(db.DB), Usage: keyusage.NewStore(db.DB),
		Notices: notices.NewStore(db.DB, nil),
	}
	cfg := s.Config()
	cfg.TermsVersion, cfg.Now, cfg.NoLoops = "1", db.Now, true
	cfg.Mail = courier.Config{URL: "file://" + t.TempDir(), From: "no-reply@api.example"}
	for _, a := range adjust {
		a(&cfg)
	}
	s.Service = servicetest.Start(t, peer.Authquota,
		func(ctx context.Context, server server.Config, telemetry telemetry.Config) error {
			cfg.Server, cfg.Telemetry = server, telemetry
			cfg.Telemetry.LogLevel = slog.LevelDebug
			return authquota.Run(ctx, cfg)
		})
	t.Cleanup(func() { noteShown(s.Log.String()) })
	s.WaitReady()
	return s
}

// Charge sets the requests charged to an account today; those of the last minute are three of them
// at most.
func (s *Site) Charge(accountID string, calls int) {
	s.t.Helper()
	c, ctx := s.Client(), s.t.Context()
	require.NoError(s.t, c.HSet(ctx, counter.Day(counter.DayOf(s.Now())), accountID, calls).Err())
	now, err := c.Time(ctx).Result()
	require.NoError(s.t, err)
	require.NoError(s.t, c.Del(ctx, counter.Window(accountID)).Err())
	for range min(calls, 3) {
		require.NoError(s.t, c.LPush(ctx, counter.Window(accountID), now.UnixMicro()).Err())
	}
}

// Epoch returns the epoch of an account that is in effect.
func (s *Site) Epoch(accountID string) int64 {
	s.t.Helper()
	epoch, err := s.Client().HGet(s.t.Context(), counter.Epochs, accountID).Int64()
	require.NoError(s.t, err)
	return epoch
}

// Visitor returns a person without an account.
func (s *Site) Visitor() *testkit.Person {
	return testkit.NewPerson(s.t, testkit.VisitURL(s.t, s.URL), s.Now)
}

// SignUp returns a person who has signed up and is signed in.
func (s *Site) SignUp(email string) *testkit.Person {
	s.t.Helper()
	p := s.Visitor()
	p.SignUp(s.DB, email)
	return p
}

// Issued is the response to a request for a new key.
type Issued struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"`
	Account   string    `json:"account"`
	Tier      api.Tier  `json:"tier"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Issue issues a key to an account; to a new one if accountID is empty.
func (s *Site) Issue(accountID string) Issued {
	s.t.Helper()
	order := `{"useCase":"testing"}`
	if accountID != "" {
		order = `{"useCase":"testing","account":"` + accountID + `"}`
	}
	return servicetest.Read[Issued](s.Do(http.MethodPost, "/operator/v1/keys", order))
}

// Change suspends, resumes or grants, as testkit.Actor.
func (s *Site) Change(accountID, act, body string) {
	s.t.Helper()
	servicetest.Read[api.Account](s.Do(http.MethodPost, "/operator/v1/accounts/"+accountID+"/"+act, body))
}

// Suspend suspends an account.
func (s *Site) Suspend(accountID, reason string) {
	s.Change(accountID, "suspend", `{"reason":"`+reason+`"}`)
}

// Resume resumes an account.
func (s *Site) Resume(accountID string) { s.Change(accountID, "resume", `{"reason":"resolved"}`) }

// Grant grants a tier.
func (s *Site) Grant(accountID string, tier api.Tier) {
	s.Change(accountID, "grant", `{"tier":"`+string(tier)+`"}`)
}

// Entitle stores an entitlement, as billing does.
func (s *Site) Entitle(accountID string, e api.Entitlement) {
	s.t.Helper()
	body, err := json.Marshal(e)
	require.NoError(s.t, err)
	response := s.Do(http.MethodPut, "/internal/v1/entitlements/"+accountID, string(body))
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Count reports requests of a key with one outcome on a day, as gateways do.
func (s *Site) Count(key, day string, outcome api.CallOutcome, calls int) {
	s.t.Helper()
	body, err := json.Marshal(api.UsageBatch{
		ID: uuid.Must(uuid.NewV7()).String(), Counts: []api.UsageCount{
			{Day: day, Key: key, Outcome: outcome, Calls: calls, LastAt: s.Now()},
		},
	})
	require.NoError(s.t, err)
	response := s.Do(http.MethodPost, "/internal/v1/usage-batches", string(body))
	require.Equal(s.t, http.StatusNoContent, response.Status, response.Body)
}

// Decide approves or declines a key request.
func (s *Site) Decide(request, act, body string) servicetest.Response {
	s.t.Helper()
	return s.Do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

// Resolve looks up a key, as gateways do.
func (s *Site) Resolve(key string) servicetest.Response {
	s.t.Helper()
	parsed, ok := apikey.Parse(key)
	require.True(s.t, ok)
	body, err := json.Marshal(api.PrincipalQuery{Digests: parsed.Digests([][]byte{testkit.Pepper})})
	require.NoError(s.t, err)
	return s.Do(http.MethodPost, "/internal/v1/principals", string(body))
}

// Principal returns the principal of a key.
func (s *Site) Principal(key string) api.Principal {
	s.t.Helper()
	return servicetest.Read[api.Principal](s.Resolve(key))
}
