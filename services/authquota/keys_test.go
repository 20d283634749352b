package authquota_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
)

func TestAKeyFromIssueToRevocation(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		var at atomic.Pointer[time.Time]
		start := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)
		at.Store(&start)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return *at.Load() } })
		now := start.Truncate(time.Microsecond)

		made := svc.do(http.MethodPost, "/operator/v1/keys",
			`{"useCase":"  a newsletter  ","tier":"developer","expiresIn":"30d"}`)
		require.Equal(t, http.StatusCreated, made.Status)
		require.Equal(t, "no-store", made.Header.Get("Cache-Control"))
		key := servicetest.Read[api.IssuedKey](made)
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

		listed := api.ListedKey{
			ID: key.ID, Account: key.Account, Tier: api.Developer, Prefix: "oda_live_", LastFour: key.Key[len(key.Key)-4:],
			UseCase: "a newsletter", CreatedAt: now, ExpiresAt: key.ExpiresAt, Status: "active",
		}
		require.Empty(t, cmp.Diff([]api.ListedKey{listed}, svc.listKeys("")))

		revokedAt := start.Add(time.Hour).Truncate(time.Microsecond)
		at.Store(&revokedAt)
		listed.RevokedAt, listed.Status = &revokedAt, "revoked"
		require.Empty(t, cmp.Diff(listed, servicetest.Read[api.ListedKey](svc.revoke(key.ID))))
		after := svc.principal(key.Key)
		require.Greater(t, after.Epoch, got.Epoch, "gateways that keep the old answer must notice")
		require.Equal(t, &revokedAt, after.RevokedAt)

		later := revokedAt.Add(time.Hour)
		at.Store(&later)
		require.Empty(t, cmp.Diff(listed, servicetest.Read[api.ListedKey](svc.revoke(key.ID))), "twice is once")
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
		require.Equal(t, api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5}, svc.principal(key.Key).Limits,
			"the operator's figures")

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
		svc := s.start(t, func(c *authquota.Config) {
			c.Tiers, c.OlderKeys, c.TermsVersion = "free=20/200/5", "sk-[a-z]+",
				"2"
		})
		got := servicetest.Read[api.SharedSettings](svc.do(http.MethodGet, "/internal/v1/settings", nil))
		require.Equal(t, api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5}, got.Tiers[0].Limits)
		require.Equal(t, apikey.Fingerprints([][]byte{pepper}), got.Peppers)
		require.Equal(t, []string{"sk-[a-z]+", "2"}, []string{got.OlderKeys, got.TermsVersion})
	})
}

func TestUnknownKeys(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		svc.issue(nil)
		svc.resolve(apikey.Generate(apikey.Live).Reveal()).RequireError(problem.NotFound)
		svc.revoke("key_0199a7a0000070008000000000000000").RequireError(problem.NotFound)
		for _, id := range []string{"x", "key_", "acc_0199a7a0000070008000000000000000", "key_%00",
			"key_0199A7A0000070008000000000000000"} {
			svc.revoke(id).RequireError(problem.NotFound)
		}
		svc.do(http.MethodGet, "/operator/v1/keys?account=acc_0199a7a0000070008000000000000000", nil).
			RequireError(problem.NotFound)
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
		for _, key := range []api.IssuedKey{old, fresh} {
			require.Equal(t, key.ID, servicetest.Read[api.Principal](svc.resolve(key.Key, newer, older)).Key)
		}
		svc.stop()

		svc = s.start(t, func(c *authquota.Config) { c.Peppers = []string{hex.EncodeToString(newer)} })
		require.Equal(t, fresh.ID, servicetest.Read[api.Principal](svc.resolve(fresh.Key, newer)).Key,
			"new keys are kept under the newest")
		svc.resolve(old.Key, newer).RequireError(problem.NotFound)
	})
}

func TestBadOrders(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		free := svc.issue(nil)
		for body, words := range map[string][]string{
			``:                       {"useCase", "must"},
			`{"useCase":"a\u0001b"}`: {"useCase", "U+0001"},
			`{"useCase":7}`:          {"useCase", "string"},
			`{"useCase":"` + strings.Repeat("é", 501) + `"}`:    {"useCase", "at most 500"},
			`{"useCase":"x","tier":"gold"}`:                     {"tier", "free, developer, commercial"},
			`{"useCase":"x","expiresIn":"0s"}`:                  {"expiresIn", "at most 365d"},
			`{"useCase":"x","expiresIn":"30x"}`:                 {"expiresIn", "30d"},
			`{"useCase":"x","expiresIn":720}`:                   {"expiresIn", "string"},
			`{"useCase":"x","test":"yes"}`:                      {"test", "bool"},
			`{"useCase":"x","scope":"all"}`:                     {"scope", "unknown"},
			`{"useCase":"x"} {}`:                                {"one JSON object"},
			`[]`:                                                {"one JSON object"},
			`{"useCase":"` + strings.Repeat("x", 70_000) + `"}`: {"one JSON object"},
			`{"useCase":"x","account":"` + free.Account + `","tier":"commercial"}`: {
				free.Account + " has the tier free, not commercial", "Leave the tier out to issue a free key",
				"opportunity accounts grant " + free.Account + " commercial",
			},
		} {
			svc.do(http.MethodPost, "/operator/v1/keys", body).RequireError(problem.InvalidParameter, words...)
		}
		for _, account := range []string{"x", "acc_0199a7a0000070008000000000000000"} {
			svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","account":"`+account+`"}`).
				RequireError(problem.NotFound)
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
		nine := `"` + strings.Join([]string{digest, digest, digest, digest, digest, digest, digest, digest, digest}, `","`) +
			`"`
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

// secret returns the key shown on a page, and its ID.
func (b *browser) secret(p testkit.Page) (key, id string) {
	b.svc.t.Helper()
	key = testkit.NewKey(p)
	b.svc.keys = append(b.svc.keys, key)
	return key, b.svc.principal(key).Key
}

// obtain requests a key, has it approved and collects it.
func (b *browser) obtain(name string) (key, id string) {
	b.svc.t.Helper()
	r := b.RequestKey(name, api.TermsVersion)
	b.svc.decide(r, "approve", nil)
	return b.secret(b.Post("/account/keys/requests/" + r + "/collect"))
}

func (s *service) decide(request, act string, body any) servicetest.Response {
	s.t.Helper()
	return s.do(http.MethodPost, "/operator/v1/keys/requests/"+request+"/"+act, body)
}

// sent returns the subjects of the n mails sent.
func (s *stores) sent(t *testing.T, n int) (subjects []string) {
	t.Helper()
	storetest.Eventually(t, "mails", func() bool { return len(s.mails(t)) == n && s.waiting(t) == 0 })
	for _, m := range s.mails(t) {
		subjects = append(subjects, m.subject)
	}
	return subjects
}

// Pages and mails that mention the operator include the contact if it is configured.
func TestPagesAndMailsNameTheOperatorsAddress(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		for contact, address := range map[string]string{
			"": "", "help@api.example": "mailto:help@api.example",
			"https://api.example/help?a=1&b=2": "https://api.example/help?a=1&amp;b=2",
		} {
			svc, _ := s.startAt(t, begin, func(c *authquota.Config) { c.Contact = contact })
			b := svc.browser()
			b.signUp(strconv.Itoa(len(contact)) + "@example.org")
			servicetest.Read[api.ListedAccount](svc.change(b.Account, "suspend", `{"reason":"unpaid"}`))
			for path, status := range map[string]int{"/account": http.StatusOK, "/account/plan": http.StatusOK,
				"/account/nothing": http.StatusNotFound} {
				p := b.Get(path).Shows(status, "the operator of the service")
				require.Equal(t, contact != "", strings.Contains(p.Body, `the operator of the service (<a href="`+address+`">`),
					p.Body)
			}
			isNotice := func(m received) bool {
				return m.subject == "Your account is suspended" &&
					strings.Contains(m.header.Get("To"), strconv.Itoa(len(contact))+"@example.org")
			}
			storetest.Eventually(t, "the mail arrives", func() bool { return slices.ContainsFunc(s.mails(t), isNotice) })
			sent := s.mails(t)
			letter := sent[slices.IndexFunc(sent, isNotice)].plain
			require.Equal(t, contact != "",
				strings.Contains(strings.Join(strings.Fields(letter), " "), "the operator of the service ("+contact+")"), letter)
			svc.stop()
		}
	})
}

func (s *service) keyDigests(after api.KeyPosition) api.KeyDigests {
	s.t.Helper()
	path := "/internal/v1/key-digests"
	if after.Sequence > 0 {
		path += fmt.Sprintf("?after=%d&digest=%s", after.Sequence, after.Digest)
	}
	return servicetest.Read[api.KeyDigests](s.do(http.MethodGet, path, nil))
}

// shortened returns the shortened digest of a key, as gateways cache it.
func shortened(t *testing.T, key string) string {
	t.Helper()
	parsed, ok := apikey.Parse(key)
	require.True(t, ok)
	return parsed.Digests([][]byte{pepper})[0][:api.KeyDigestLength]
}

func TestKeyDigestsAreListedForGateways(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		require.Empty(t, svc.keyDigests(api.KeyPosition{}).Digests)
		key := svc.issue(nil)
		page := svc.keyDigests(api.KeyPosition{})
		require.Equal(t, []string{shortened(t, key.Key)}, page.Digests)
		svc.importKeys(olderLine(olderKey, nil))
		older := apikey.OlderOf(olderKey).Digests([][]byte{pepper})[0][:api.KeyDigestLength]
		require.Equal(t, []string{older}, svc.keyDigests(page.Last).Digests)
		require.Equal(t, http.StatusBadRequest, svc.do(http.MethodGet, "/internal/v1/key-digests?after=x", nil).Status)
	})
}

// olderLine returns an import line for the key. fields override its values.
func olderLine(key string, fields map[string]any) string {
	line := map[string]any{
		"sha256": string(apikey.OlderOf(key)), "prefix": "jb-", "lastFour": key[len(key)-4:], "useCase": "an older use",
		"tier": "developer", "expiresAt": "2027-06-01T00:00:00Z",
	}
	for name, value := range fields {
		line[name] = value
	}
	encoded, _ := json.Marshal(line)
	return string(encoded)
}

func (s *service) importKeys(lines ...string) api.ImportReport {
	s.t.Helper()
	return servicetest.Read[api.ImportReport](s.do(http.MethodPost, "/operator/v1/keys/import", strings.Join(lines, "\n")))
}

func (s *service) olderPrincipal(key string, peppers ...[]byte) api.Principal {
	s.t.Helper()
	if len(peppers) == 0 {
		peppers = [][]byte{pepper}
	}
	return servicetest.Read[api.Principal](s.do(http.MethodPost, "/internal/v1/principals", api.PrincipalQuery{
		Digests: apikey.OlderOf(key).Digests(peppers),
	}))
}

const (
	olderKey  = "jb-4711-an-older-key-9x2Q"
	olderKey2 = "jb-4712-an-older-key-7y3R"
)

func at(now time.Time) func(*authquota.Config) {
	return func(c *authquota.Config) { c.Now = func() time.Time { return now } }
}

func TestOlderKeysAreImportedByHash(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, at(now))
		first := olderLine(olderKey, map[string]any{"name": "Job board"})
		require.Empty(t, cmp.Diff(api.ImportReport{Applied: true, Created: 2, Rejected: []api.RejectedLine{}},
			svc.importKeys(first, "",
				olderLine(olderKey2, map[string]any{
					"tier": "free", "sha256": strings.ToUpper(string(apikey.OlderOf(olderKey2))),
				}))))

		p := svc.olderPrincipal(olderKey)
		require.Equal(t, api.Developer, p.Tier)
		require.Equal(t, time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC), p.ExpiresAt)
		require.NotEqual(t, p.Account, svc.olderPrincipal(olderKey2).Account, "an account for each")
		keys := svc.listKeys("?account=" + p.Account)
		require.Len(t, keys, 1)
		require.Equal(t, "jb-", keys[0].Prefix)
		require.Equal(t, "9x2Q", keys[0].LastFour)
		require.Equal(t, "Job board", keys[0].Name)
		require.Equal(t, "an older use", keys[0].UseCase)

		servicetest.Read[api.ListedKey](svc.revoke(p.Key))
		require.Empty(t, cmp.Diff(api.ImportReport{Applied: true, Unchanged: 1, Rejected: []api.RejectedLine{}},
			svc.importKeys(first)), "again")
		require.NotNil(t, svc.olderPrincipal(olderKey).RevokedAt, "what was revoked stays so")
		svc.stop()

		newer := []byte("the pepper that comes after it..")
		svc = s.start(t, at(now.AddDate(1, 0, 0)), func(c *authquota.Config) {
			c.Peppers = []string{hex.EncodeToString(newer), hex.EncodeToString(pepper)}
		})
		require.Equal(t, 1, svc.importKeys(first).Unchanged, "after the pepper changed, and its life is over")
		require.Equal(t, p.Key, svc.olderPrincipal(olderKey, newer, pepper).Key)
		require.Len(t, svc.listKeys(""), 2)
	})
}

func TestAnImportWarnsOfKeysThatTheGatewayRejects(t *testing.T) {
	s := localStores(t)
	now := at(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	svc := s.start(t, now)
	report := svc.importKeys(olderLine(olderKey, nil), olderLine("sk-1234", map[string]any{"prefix": "sk-"}))
	require.True(t, report.Applied)
	require.Equal(t, []string{
		"the gateway rejects the keys on these lines because their prefix does not fit OPPORTUNITY_OLDER_KEYS: 2",
	}, report.Warnings)
	svc.stop()

	svc = s.start(t, now, func(c *authquota.Config) { c.OlderKeys = "" })
	require.Empty(t, svc.importKeys().Warnings, "no keys")
	require.Equal(t, []string{
		"the gateway rejects these keys because OPPORTUNITY_OLDER_KEYS is not set: set it to the form of the keys, for the " +
			"gateway and authquota",
	}, svc.importKeys(olderLine(olderKey, nil)).Warnings, "also of known keys")
}

func TestAnImportWithABadLineChangesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t, at(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)))
		report := svc.importKeys(
			olderLine(olderKey, nil),
			olderLine(olderKey, nil),
			olderLine(olderKey2, map[string]any{
				"sha256": olderKey2, "prefix": "oda_live_", "lastFour": "12345", "tier": "gold", "useCase": " ",
				"name": strings.Repeat("x", 61),
			}),
			`{"sha256":`,
			olderLine(olderKey2, map[string]any{"key": olderKey2}),
			olderLine(olderKey2, map[string]any{"expiresAt": nil}),
		)
		require.False(t, report.Applied)
		require.Len(t, report.Rejected, 5)
		require.Equal(t, api.RejectedLine{Line: 2, Problems: apitest.Problems("sha256: is on line 1 already")},
			report.Rejected[0])
		require.Equal(t, 3, report.Rejected[1].Line)
		require.Empty(t, cmp.Diff(apitest.Problems(
			"sha256: must be the SHA-256 of the key in hexadecimal, 64 characters",
			"prefix: must not be that of the keys that are issued here",
			"lastFour: must be the last four characters of the key",
			"name: must have at most 60 characters",
			"useCase: must not be empty",
			"tier: must be one of free, developer, commercial",
		), report.Rejected[1].Problems))

		report = svc.importKeys(olderLine(olderKey, nil),
			olderLine(olderKey2, map[string]any{"expiresAt": "2026-11-20T10:00:00Z"}),
			olderLine(olderKey2+"+", map[string]any{"expiresAt": "2027-11-20T10:00:01Z"}))
		require.False(t, report.Applied)
		require.Zero(t, report.Created)
		require.Len(t, report.Rejected, 2)
		require.Equal(t, api.RejectedLine{Line: 2,
			Problems: apitest.Problems("expiresAt: must be in the future, at most 365 days from now")}, report.Rejected[0])
		require.Empty(t, svc.listKeys(""))
		require.Empty(t, svc.listAccounts())
		svc.do(http.MethodPost, "/operator/v1/keys/import?x=1", "").RequireError(problem.UnknownParameter)
		require.Equal(t, []api.RejectedLine{{Line: 1, Problems: apitest.Problems("the file is empty")}},
			svc.importKeys().Rejected)
	})
}

const today = "2026-11-20"

func (b *browser) connect(key string) testkit.Page {
	return b.Post("/account/keys/connect", "key", key)
}

func TestOlderKeyIsConnectedByItsHolder(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b := svc.browser()
		b.signUp("ada@example.org")
		own, _ := b.obtain("Mine")
		svc.importKeys(olderLine(olderKey, map[string]any{"name": "Before", "tier": "commercial"}))
		operators := svc.issue(nil)
		second := svc.issue(map[string]any{"account": operators.Account})
		servicetest.Read[api.ListedKey](svc.revoke(svc.issue(map[string]any{"account": operators.Account}).ID))
		older := svc.olderPrincipal(olderKey)
		mine, theirs := svc.principal(own), svc.principal(operators.Key)
		s.charge(t, today, map[string]int{counter.ServiceField: 60, b.Account: 10, older.Account: 20, operators.Account: 30})

		b.Get("/account/keys/connect").Shows(http.StatusOK, "Connect an older key")
		b.connect(" " + olderKey + "\n").Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "The key is connected", "Before", "jb-…9x2Q", "2 of 5 keys in use")
		joined := svc.olderPrincipal(olderKey)
		require.Equal(t, b.Account, joined.Account)
		require.Equal(t, older.Key, joined.Key)
		require.Equal(t, api.Commercial, joined.Tier, "the better tier")
		require.Equal(t, older.ExpiresAt, joined.ExpiresAt)
		require.Greater(t, svc.principal(own).Epoch, mine.Epoch)
		require.Equal(t, api.Commercial, svc.principal(own).Tier)

		b.connect(operators.Key).Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "2 others", "4 of 5 keys in use", "Ended keys (1)")
		for _, key := range []string{operators.Key, second.Key} {
			p := svc.principal(key)
			require.Equal(t, b.Account, p.Account)
			require.Equal(t, api.Commercial, p.Tier, "the better tier stays")
			require.NotEqual(t, theirs.Epoch, p.Epoch)
		}
		day := s.Client().HGetAll(t.Context(), counter.Day(today)).Val()
		require.Equal(t, map[string]string{"*": "60", b.Account: "60"}, day,
			"the sum, once; nothing of it is another call of the service")
		epochs := s.Client().HGetAll(t.Context(), counter.Epochs).Val()
		require.NotEmpty(t, epochs[operators.Account])
		require.NotEqual(t, fmt.Sprint(theirs.Epoch), epochs[operators.Account],
			"what gateways keep of the other account is out of date")
		require.Equal(t, b.Account, s.Client().HGet(t.Context(), counter.Merged, operators.Account).Val())

		for _, a := range servicetest.Read[api.AccountList](svc.do(http.MethodGet, "/operator/v1/accounts", nil)).Accounts {
			if a.ID != b.Account {
				require.Equal(t, b.Account, a.MergedInto)
				require.Zero(t, a.Keys)
			}
		}
		for _, act := range []string{"suspend", "resume"} {
			require.Equal(t, http.StatusNotFound, svc.change(operators.Account, act, `{"reason":"x"}`).Status)
		}
		require.Equal(t, http.StatusNotFound,
			svc.do(http.MethodPost, "/operator/v1/keys", map[string]any{"useCase": "x", "account": operators.Account}).Status)
		require.Contains(t, s.sent(t, 2), "Your plan is now commercial")
	})
}

// The last minute moves too: connecting keys does not free capacity.
func TestTheLastMinuteOfAConnectedKeyCountsForItsNewAccount(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc, _ := s.startAt(t, begin)
		b, c, ctx := svc.browser(), s.Client(), t.Context()
		b.signUp("ada@example.org")
		both, empty, first := svc.issue(nil), svc.issue(nil), svc.issue(nil)
		own := counter.Window(b.Account)
		window := func(account string, life time.Duration, times ...any) {
			require.NoError(t, c.RPush(ctx, counter.Window(account), times...).Err()) // newest first
			require.NoError(t, c.PExpire(ctx, counter.Window(account), life).Err())
		}
		const at = "17636328000000" // with two more digits, a time in microseconds
		window(first.Account, time.Hour, at+"05", at+"02")
		b.connect(first.Key).Leads("/account/keys")
		require.Equal(t, []string{at + "05", at + "02"}, c.LRange(ctx, own, 0, -1).Val())
		require.Greater(t, c.PTTL(ctx, own).Val(), 59*time.Minute)
		window(both.Account, 2*time.Hour, at+"07", at+"03", at+"02", at+"01")
		b.connect(both.Key).Leads("/account/keys")
		merged := []string{at + "07", at + "05", at + "03", at + "02", at + "02", at + "01"}
		require.Equal(t, merged, c.LRange(ctx, own, 0, -1).Val())
		require.Greater(t, c.PTTL(ctx, own).Val(), 119*time.Minute, "the longer life")
		require.Zero(t, c.Exists(ctx, counter.Window(first.Account), counter.Window(both.Account)).Val())
		b.connect(empty.Key).Leads("/account/keys")
		require.Equal(t, merged, c.LRange(ctx, own, 0, -1).Val())
		require.Greater(t, c.PTTL(ctx, own).Val(), 119*time.Minute)
	})
}

func TestAPersonSignsUpAndIn(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startAt(t, begin)
		b := svc.browser()
		b.Get("/account").Leads("/account/sign-in")
		b.Get("/account/sign-up").Shows(http.StatusOK, "Create an account")
		b.Post("/account/sign-up", "email", " Ada@Example.org ").Leads("/account/sign-up/sent")
		link := svc.mail("ada@example.org", "confirm-address", 1).links()[0]
		form := b.Get(link).Shows(http.StatusOK, "Choose a password", "ada@example.org")
		b.Get(link).Shows(http.StatusOK, "Choose a password") // opening the link does not use it
		short := b.Post("/account/confirm", "token", testkit.Token(form), "password", "short").
			Shows(http.StatusUnprocessableEntity, "12 characters")
		require.NotContains(t, short.Body, `"short"`, "what was typed as a password is not sent back")
		require.Empty(t, b.Cookies["__Host-session"])
		b.Confirm(link)
		b.other().Get(link).Shows(http.StatusGone, "has expired")
		b.other().Post("/account/confirm", "token", testkit.Token(form), "password", testkit.Password).Shows(http.StatusGone)

		// only the authenticator pages until it is set up
		halfway := b.Cookies["__Host-session"]
		for _, path := range []string{"/account", "/account/recovery-codes"} {
			b.Get(path).Leads("/account/authenticator")
		}
		b.Get("/account/sign-in/code").Leads("/account/authenticator")
		b.Get("/account/lost-authenticator").Leads("/account/authenticator")
		setup := b.Get("/account/authenticator").Shows(http.StatusOK, "Set up an authenticator")
		require.Contains(t, setup.Body, `src="data:image/png;base64,`)
		require.Contains(t, setup.Body, `otpauth://totp/`)
		b.Email, b.Password, b.Seed = "ada@example.org", testkit.Password, testkit.Seed(setup)
		require.Equal(t, b.Seed, testkit.Seed(b.Get("/account/authenticator")), "the page can be opened again")
		b.Post("/account/authenticator", "code", b.WrongCode()).Shows(http.StatusUnprocessableEntity, "The code is wrong")
		done := b.Post("/account/authenticator", "code", b.Code()).
			Shows(http.StatusOK, "Your recovery codes", "Save them now")
		require.Len(t, regexp.MustCompile(`<li><code>`).FindAllString(done.Body, -1), 10)
		require.NotEqual(t, halfway, b.Cookies["__Host-session"], "a new secret at each stage")
		b.Get("/account").Shows(http.StatusOK, "ada@example.org")
		b.Get("/account/recovery-codes").Shows(http.StatusOK, "10")
		b.Get("/account/authenticator").Leads("/account")
		b.Get("/account/sign-in").Leads("/account")
		old := b.other()
		old.Cookies["__Host-session"] = halfway
		old.Get("/account/sign-in/code").Leads("/account/sign-in")

		// sign out and in again: the code of the set-up was used
		code := b.Code()
		b.Post("/account/sign-out").Leads("/account/sign-in")
		b.Get("/account/sign-in").Shows(http.StatusOK, "You are signed out.")
		require.NotContains(t, b.Get("/account/sign-in").Text(), "You are signed out.", "said once")
		b.EnterPassword().Leads("/account/sign-in/code")
		b.Get("/account/sign-in/code").Shows(http.StatusOK, "Second step")
		b.Post("/account/sign-in/code", "code", code).Shows(http.StatusUnprocessableEntity, "already used")
		clock.Advance(30 * time.Second)
		b.Post("/account/sign-in/code", "code", b.Code()).Leads("/account")
		b.Get("/account").Shows(http.StatusOK)
	})
}
