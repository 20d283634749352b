package authquota_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestAKeyFromIssueToRevocation(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		svc, clock := startAt(t, s, begin.Add(123456789), func(c *authquota.Config) { c.Tiers = "developer=20/200/5" })
		now := begin.Add(123456 * time.Microsecond)
		made := svc.Do(http.MethodPost, "/operator/v1/keys",
			`{"useCase":"  a newsletter  ","tier":"developer","expiresIn":"30d"}`)
		require.Equal(t, http.StatusCreated, made.Status)
		require.Equal(t, "no-store", made.Header.Get("Cache-Control"))
		key := servicetest.Read[api.IssuedKey](made)
		require.Equal(t, api.Developer, key.Tier)
		require.Equal(t, now.Add(720*time.Hour), key.ExpiresAt)

		got := svc.Principal(key.Key)
		require.Positive(t, got.Epoch)
		require.Empty(t, cmp.Diff(api.Principal{
			Key: key.ID, Account: key.Account, Tier: api.Developer, ExpiresAt: key.ExpiresAt, Epoch: got.Epoch,
			Limits: api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5, History: true},
		}, got))
		require.Equal(t, got, svc.Principal(key.Key), "nothing changed: the same epoch")
		listed := api.ListedKey{
			ID: key.ID, Account: key.Account, Tier: api.Developer, Prefix: "oda_live_", LastFour: key.Key[len(key.Key)-4:],
			UseCase: "a newsletter", CreatedAt: now, ExpiresAt: key.ExpiresAt, Status: "active",
		}
		require.Empty(t, cmp.Diff([]api.ListedKey{listed}, svc.ListKeys("")))

		clock.Advance(time.Hour)
		revokedAt := now.Add(time.Hour)
		listed.RevokedAt, listed.Status = &revokedAt, "revoked"
		for range 2 { // a repetition changes nothing
			require.Empty(t, cmp.Diff(listed, servicetest.Read[api.ListedKey](svc.Revoke(key.ID))))
			clock.Advance(time.Hour)
		}
		after := svc.Principal(key.Key)
		require.Greater(t, after.Epoch, got.Epoch, "gateways that cached the principal must notice")
		require.Equal(t, &revokedAt, after.RevokedAt)

		test := svc.Issue(key.Account, "test", true)
		require.True(t, strings.HasPrefix(test.Key, apikey.Test))
		require.Equal(t, []any{key.Account, api.Developer}, []any{test.Account, test.Tier}, "the tier of its account")
		svc.Issue("")
		require.Len(t, svc.ListKeys("?account="+key.Account), 2)
	})
}

// A gateway compares these settings with its own.
func TestSharedSettings(t *testing.T) {
	s := onStores(t)
	svc := s.Serve(t, func(c *authquota.Config) {
		c.Tiers, c.OlderKeys, c.TermsVersion = "free=20/200/5", "sk-[a-z]+", "2"
	})
	got := servicetest.Read[api.SharedSettings](svc.Do(http.MethodGet, "/internal/v1/settings", nil))
	require.Equal(t, api.Limits{PerMinute: 20, PerDay: 200, PageSize: 5}, got.Tiers[0].Limits)
	require.Equal(t, apikey.Fingerprints([][]byte{testkit.Pepper}), got.Peppers)
	require.Equal(t, []string{"sk-[a-z]+", "2"}, []string{got.OlderKeys, got.TermsVersion})
}

func TestPeppersRotate(t *testing.T) {
	s := onStores(t)
	older, newer := testkit.Pepper, []byte("the pepper that comes after it..")
	with := func(peppers ...[]byte) func(*authquota.Config) {
		return func(c *authquota.Config) {
			c.Peppers = nil
			for _, p := range peppers {
				c.Peppers = append(c.Peppers, hex.EncodeToString(p))
			}
		}
	}
	svc := s.Serve(t, with(older))
	old := svc.Issue("")
	svc.Stop()
	svc = s.Serve(t, with(newer, older))
	fresh := svc.Issue("")
	for _, key := range []api.IssuedKey{old, fresh} {
		require.Equal(t, key.ID, svc.Principal(key.Key, newer, older).Key)
	}
	svc.Stop()
	svc = s.Serve(t, with(newer))
	require.Equal(t, fresh.ID, svc.Principal(fresh.Key, newer).Key, "new keys are stored under the newest")
	svc.Resolve(old.Key, newer).RequireError("not_found")
}

func TestAccess(t *testing.T) {
	s := onStores(t)
	svc := s.Serve(t)
	servicetest.RequireAccess(t, peer.Authquota, svc.URL, svc.Log.String)
}

func importKeys(svc *sitekit.Site, lines ...string) api.ImportReport {
	return servicetest.Read[api.ImportReport](
		svc.Do(http.MethodPost, "/operator/v1/keys/import", strings.Join(lines, "\n")))
}

const olderKey2 = "jb-4712-an-older-key-7y3R"

// That a bad line imports nothing, and that a known key stays unchanged, is tested in package keys.
func TestOlderKeysAreImportedByHash(t *testing.T) {
	s := onStores(t)
	svc, _ := startAt(t, s, begin)
	report := importKeys(svc, olderLine(olderKey, "name", "Job board"), "",
		olderLine(olderKey2, "tier", "free", "sha256", strings.ToUpper(string(apikey.OlderOf(olderKey2)))),
		olderLine("sk-1234", "prefix", "sk-"))
	require.Empty(t, cmp.Diff(api.ImportReport{
		Applied: true, Created: 3, Rejected: []api.RejectedLine{}, Warnings: []string{
			"the gateway rejects the keys on these lines because their prefix does not fit OPPORTUNITY_OLDER_KEYS: 4",
		},
	}, report))
	p := svc.Principal(olderKey)
	require.Equal(t, api.Developer, p.Tier)
	require.Equal(t, time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC), p.ExpiresAt)
	require.NotEqual(t, p.Account, svc.Principal(olderKey2).Account, "an account for each")
	key := svc.ListKeys("?account=" + p.Account)[0]
	require.Equal(t, []string{"jb-", "9x2Q", "Job board", "an older use"},
		[]string{key.Prefix, key.LastFour, key.Name, key.UseCase})
	digests := func(query string) api.KeyDigests {
		return servicetest.Read[api.KeyDigests](svc.Do(http.MethodGet, "/internal/v1/key-digests"+query, nil))
	}
	page := digests("")
	require.Len(t, page.Digests, 3)
	require.Contains(t, page.Digests,
		apikey.OlderOf(olderKey).Digests([][]byte{testkit.Pepper})[0][:api.KeyDigestLength])
	require.Empty(t, digests(fmt.Sprintf("?after=%d&digest=%s", page.Last.Sequence, page.Last.Digest)).Digests)
	svc.Stop()

	svc, _ = startAt(t, s, begin, func(c *authquota.Config) { c.OlderKeys = "" })
	require.Empty(t, importKeys(svc).Warnings, "no keys")
	require.Equal(t, []string{
		"the gateway rejects these keys because OPPORTUNITY_OLDER_KEYS is not set: set it to the form of the keys, for the " +
			"gateway and authquota",
	}, importKeys(svc, olderLine(olderKey)).Warnings, "also of known keys")
}

func TestOlderKeyIsConnectedByItsHolder(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		svc, _ := startAt(t, s, begin)
		b := svc.SignUp("ada@example.org")
		own := svc.Issue(b.Account)
		importKeys(svc, olderLine(olderKey, "name", "Before", "tier", "commercial"))
		operators := svc.Issue("")
		second := svc.Issue(operators.Account)
		older, mine, theirs := svc.Principal(olderKey), svc.Principal(own.Key), svc.Principal(operators.Key)
		charge(t, s, map[string]int{counter.ServiceField: 60, b.Account: 10, older.Account: 20, operators.Account: 30})

		b.Get("/account/keys/connect").Shows(http.StatusOK, "Connect an older key")
		b.Post("/account/keys/connect", "key", " "+olderKey+"\n").Leads("/account/keys")
		b.Get("/account/keys").Shows(http.StatusOK, "The key is connected", "Before", "jb-…9x2Q", "2 of 5 keys in use")
		joined := svc.Principal(olderKey)
		require.Equal(t, []any{b.Account, older.Key, older.ExpiresAt}, []any{joined.Account, joined.Key, joined.ExpiresAt})
		require.Equal(t, api.Commercial, joined.Tier, "the better tier")
		require.Equal(t, api.Commercial, svc.Principal(own.Key).Tier)
		require.Greater(t, svc.Principal(own.Key).Epoch, mine.Epoch)

		b.Post("/account/keys/connect", "key", operators.Key).Leads("/account/keys")
		for _, key := range []string{operators.Key, second.Key} {
			p := svc.Principal(key)
			require.Equal(t, []any{b.Account, api.Commercial}, []any{p.Account, p.Tier})
			require.NotEqual(t, theirs.Epoch, p.Epoch)
		}
		require.Equal(t, map[string]string{"*": "60", b.Account: "60"},
			s.Client().HGetAll(t.Context(), counter.Day(today)).Val(), "the sum, once, and no further request of the service")
		require.NotEqual(t, theirs.Epoch, svc.Epoch(operators.Account), "gateways discard what they cached of the other account")
		require.Equal(t, b.Account, s.Client().HGet(t.Context(), counter.Merged, operators.Account).Val())

		for _, a := range svc.ListAccounts("") {
			if a.ID != b.Account {
				require.Equal(t, []any{b.Account, 0}, []any{a.MergedInto, a.Keys})
				require.Equal(t, http.StatusNotFound, svc.Act(a.ID, "suspend", `{"reason":"x"}`).Status)
			}
		}
		s.Mail(t, b.Email, "tier-changed", 1)
	})
}
