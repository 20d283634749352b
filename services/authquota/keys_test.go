package authquota_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

func TestAKeyFromIssueToRevocation(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		var at atomic.Pointer[time.Time]
		start := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)
		at.Store(&start)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return *at.Load() } })
		now := start.Truncate(time.Microsecond)

		made := svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"  a newsletter  ","tier":"developer","expiresIn":"30d"}`)
		require.Equal(t, http.StatusCreated, made.Status)
		require.Equal(t, "no-store", made.Header.Get("Cache-Control"))
		key := servicetest.Read[issued](made)
		svc.keys = append(svc.keys, key.Key)
		require.True(t, strings.HasPrefix(key.Key, apikey.Live))
		require.Equal(t, api.Developer, key.Tier)
		require.Equal(t, now.Add(720*time.Hour), key.ExpiresAt)

		want := api.Principal{
			Key: key.ID, Account: key.Account, Tier: api.Developer, ExpiresAt: key.ExpiresAt,
			Limits: api.Limits{PerMinute: 60, PerDay: 1000, PageSize: 50, History: true},
		}
		got := svc.principal(key.Key)
		require.Positive(t, got.Epoch)
		want.Epoch = got.Epoch
		require.Empty(t, cmp.Diff(want, got))
		require.Equal(t, got, svc.principal(key.Key), "nothing changed: the same epoch")

		listed := listedKey{
			ID: key.ID, Account: key.Account, Tier: api.Developer, Prefix: "oda_live_", LastFour: key.Key[len(key.Key)-4:],
			UseCase: "a newsletter", CreatedAt: now, ExpiresAt: key.ExpiresAt, Status: "active",
		}
		require.Empty(t, cmp.Diff([]listedKey{listed}, svc.listKeys("")))

		revokedAt := start.Add(time.Hour).Truncate(time.Microsecond)
		at.Store(&revokedAt)
		listed.RevokedAt, listed.Status = &revokedAt, "revoked"
		require.Empty(t, cmp.Diff(listed, servicetest.Read[listedKey](svc.revoke(key.ID))))
		after := svc.principal(key.Key)
		require.Greater(t, after.Epoch, got.Epoch, "gateways that keep the old answer must notice")
		require.Equal(t, &revokedAt, after.RevokedAt)

		later := revokedAt.Add(time.Hour)
		at.Store(&later)
		require.Empty(t, cmp.Diff(listed, servicetest.Read[listedKey](svc.revoke(key.ID))), "twice is once")
		svc.requireSame(after, key.Key)
		expired := key.ExpiresAt.Add(time.Hour)
		at.Store(&expired)
		require.Equal(t, "revoked", svc.listKeys("")[0].Status, "revoked stays revoked")
		require.Equal(t, revokedAt.Add(0), *svc.principal(key.Key).RevokedAt)
	})
}

func TestDefaultsOfAKey(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) {
			c.Now, c.Tiers = func() time.Time { return now }, "free=20/200/5"
		})
		key := svc.issue(nil)
		require.Equal(t, api.Free, key.Tier)
		require.Equal(t, now.Add(365*24*time.Hour), key.ExpiresAt)
		require.Equal(t, api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5}, svc.principal(key.Key).Limits, "the operator's figures")

		test := svc.issue(map[string]any{"test": true, "account": key.Account})
		require.True(t, strings.HasPrefix(test.Key, apikey.Test))
		require.Equal(t, key.Account, test.Account)
		require.Len(t, svc.listKeys("?account="+key.Account), 2)

		paid := svc.issue(map[string]any{"tier": "commercial"})
		require.NotEqual(t, key.Account, paid.Account, "an account of its own")
		again := svc.issue(map[string]any{"account": paid.Account})
		require.Equal(t, api.Commercial, again.Tier, "the account's")
		svc.issue(map[string]any{"account": paid.Account, "tier": "commercial"})
		require.Len(t, svc.listKeys("?account="+paid.Account), 3)
		require.Len(t, svc.listKeys(""), 5)
	})
}

// A gateway compares these settings with its own.
func TestSharedSettings(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t, func(c *authquota.Config) { c.Tiers, c.OlderKeys, c.TermsVersion = "free=20/200/5", "sk-[a-z]+", "2" })
		got := servicetest.Read[api.SharedSettings](svc.do(http.MethodGet, "/internal/v1/settings", nil))
		require.Equal(t, api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5}, got.Tiers[0].Limits)
		require.Equal(t, apikey.Fingerprints([][]byte{pepper}), got.Peppers)
		require.Equal(t, []string{"sk-[a-z]+", "2"}, []string{got.OlderKeys, got.TermsVersion})
	})
}

func TestAnExpiredKeyIsAnswered(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		var at atomic.Pointer[time.Time]
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		at.Store(&now)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return *at.Load() } })
		key := svc.issue(map[string]any{"expiresIn": "1h"})
		later := now.Add(time.Hour)
		at.Store(&later)
		require.Equal(t, later, svc.principal(key.Key).ExpiresAt)
		require.Equal(t, "expired", svc.listKeys("")[0].Status)
		require.Zero(t, svc.listAccounts()[0].Keys, "only active keys are counted")
	})
}

func TestUnknownKeys(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		svc.issue(nil)
		svc.resolve(apikey.Generate(apikey.Live).Reveal()).RequireError(problem.NotFound)
		svc.revoke("key_0199a7a0000070008000000000000000").RequireError(problem.NotFound)
		for _, id := range []string{"x", "key_", "acc_0199a7a0000070008000000000000000", "key_%00", "key_0199A7A0000070008000000000000000"} {
			svc.revoke(id).RequireError(problem.NotFound)
		}
		svc.do(http.MethodGet, "/operator/v1/keys?account=acc_0199a7a0000070008000000000000000", nil).RequireError(problem.NotFound)
		svc.do(http.MethodGet, "/operator/v1/keys?account=x", nil).RequireError(problem.NotFound)
	})
}

func TestPeppersRotate(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		older, newer := pepper, []byte("the pepper that comes after it..")
		svc := s.start(t)
		old := svc.issue(nil)
		svc.stop()

		svc = s.start(t, func(c *authquota.Config) {
			c.Peppers = []string{hex.EncodeToString(newer), hex.EncodeToString(older)}
		})
		fresh := svc.issue(nil)
		for _, key := range []issued{old, fresh} {
			require.Equal(t, key.ID, servicetest.Read[api.Principal](svc.resolve(key.Key, newer, older)).Key)
		}
		svc.stop()

		svc = s.start(t, func(c *authquota.Config) { c.Peppers = []string{hex.EncodeToString(newer)} })
		require.Equal(t, fresh.ID, servicetest.Read[api.Principal](svc.resolve(fresh.Key, newer)).Key, "new keys are kept under the newest")
		svc.resolve(old.Key, newer).RequireError(problem.NotFound)
	})
}

func TestBadOrders(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		free := svc.issue(nil)
		for body, words := range map[string][]string{
			``:                       {"useCase", "must"},
			`{}`:                     {"useCase", "must"},
			`{"useCase":"   "}`:      {"useCase", "must"},
			`{"useCase":"a\u0001b"}`: {"useCase", "U+0001"},
			`{"useCase":"a\u200bb"}`: {"useCase", "U+200B"},
			`{"useCase":"a\u202eb"}`: {"useCase", "U+202E"},
			`{"useCase":"a\u2028b"}`: {"useCase", "U+2028"},
			`{"useCase":"a\u2029b"}`: {"useCase", "U+2029"},
			`{"useCase":"\ufeffa"}`:  {"useCase", "U+FEFF"},
			`{"useCase":"a\ud83d"}`:  {"useCase", "half of a surrogate pair"},
			`{"useCase":7}`:          {"useCase", "string"},
			`{"useCase":"` + strings.Repeat("é", 501) + `"}`:    {"useCase", "at most 500"},
			`{"useCase":"x","tier":"gold"}`:                     {"tier", "free, developer, commercial"},
			`{"useCase":"x","tier":"Free"}`:                     {"tier"},
			`{"useCase":"x","expiresIn":"0s"}`:                  {"expiresIn", "at most 365d"},
			`{"useCase":"x","expiresIn":"-1h"}`:                 {"expiresIn"},
			`{"useCase":"x","expiresIn":"1ns"}`:                 {"expiresIn"},
			`{"useCase":"x","expiresIn":"8760h1us"}`:            {"expiresIn"},
			`{"useCase":"x","expiresIn":"30x"}`:                 {"expiresIn", "30d"},
			`{"useCase":"x","expiresIn":720}`:                   {"expiresIn", "string"},
			`{"useCase":"x","test":"yes"}`:                      {"test", "bool"},
			`{"useCase":"x","scope":"all"}`:                     {"scope", "unknown"},
			`{"useCase":"x"} {}`:                                {"one JSON object"},
			`[]`:                                                {"one JSON object"},
			`{"useCase":`:                                       {"one JSON object"},
			`{"useCase":"` + strings.Repeat("x", 70_000) + `"}`: {"one JSON object"},
			`{"useCase":"x","account":"` + free.Account + `","tier":"commercial"}`: {
				free.Account + " has the tier free, not commercial", "Leave the tier out to issue a free key", "opportunity accounts grant " + free.Account + " commercial",
			},
		} {
			svc.do(http.MethodPost, "/operator/v1/keys", body).RequireError(problem.InvalidParameter, words...)
		}
		for _, account := range []string{"x", "acc_0199a7a0000070008000000000000000"} {
			svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","account":"`+account+`"}`).RequireError(problem.NotFound)
		}
		svc.do(http.MethodPost, "/operator/v1/keys?tier=free", `{"useCase":"x"}`).RequireError(problem.UnknownParameter)
		require.Len(t, svc.listKeys(""), 1, "nothing was made on the way")
		require.Len(t, svc.listAccounts(), 1)

		edge := svc.issue(map[string]any{"useCase": strings.Repeat("é", 500), "expiresIn": "8760h"})
		require.Equal(t, strings.Repeat("é", 500), svc.listKeys("?account=" + edge.Account)[0].UseCase)
	})
}

func TestInvalidLookupsAreRejected(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		digest := strings.Repeat("0a", 32)
		nine := `"` + strings.Join([]string{digest, digest, digest, digest, digest, digest, digest, digest, digest}, `","`) + `"`
		for body, words := range map[string][]string{
			``:                                      {"digests", "1 to 8"},
			`{"digests":[]}`:                        {"digests", "1 to 8"},
			`{"digests":[` + nine + `]}`:            {"digests", "1 to 8"},
			`{"digests":["` + digest[1:] + `"]}`:    {"digests", "hexadecimal"},
			`{"digests":["` + digest + `","oda_"]}`: {"digests", "hexadecimal"},
			`{"digests":"` + digest + `"}`:          {"digests"},
			`{"digest":["` + digest + `"]}`:         {"digest", "unknown"},
		} {
			svc.do(http.MethodPost, "/internal/v1/principals", body).RequireError(problem.InvalidParameter, words...)
		}
		for _, day := range []string{"today", "2026-1-1", "2026-02-30", "2026-11-20T00:00:00Z"} {
			svc.do(http.MethodPost, "/internal/v1/usage/"+day+"/restore", nil).RequireError(problem.InvalidParameter, "day")
		}
		svc.do(http.MethodGet, "/operator/v1/keys?owner=x", nil).RequireError(problem.UnknownParameter)
		svc.do(http.MethodGet, "/operator/v1/accounts?page=1", nil).RequireError(problem.UnknownParameter)
		svc.do(http.MethodGet, "/operator/v1/nothing", nil).RequireError(problem.NotFound)
		svc.do(http.MethodDelete, "/operator/v1/keys", nil).RequireError(problem.MethodNotAllowed)
	})
}

func TestAccess(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		servicetest.RequireAccess(t, peer.Authquota, svc.URL, svc.Log.String)
	})
}
