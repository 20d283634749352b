package authquota_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

// During a Redis outage no key is reported as invalid, and changes are saved until Redis is back.
func TestChangesAreSavedDuringRedisOutage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *sitekit.Stores) {
		svc := s.Serve(t)
		revoked, suspended, granted, resumed := svc.Issue(""), svc.Issue(""), svc.Issue(""), svc.Issue("")
		svc.Suspend(resumed.Account, "x")
		before := map[string]api.Principal{}
		for _, k := range []api.IssuedKey{revoked, suspended, granted, resumed} {
			before[k.ID] = svc.Principal(k.Key)
		}

		s.Stop()
		down := svc.Resolve(revoked.Key)
		down.RequireError(problem.ServiceUnavailable)
		require.Equal(t, "1", down.Header.Get("Retry-After"))
		svc.Resolve("oda_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg_2MILV8").RequireError(problem.ServiceUnavailable)
		svc.Do(http.MethodGet, "/internal/v1/key-digests", nil).RequireError(problem.ServiceUnavailable)
		for _, response := range []servicetest.Response{
			svc.Revoke(revoked.ID), svc.Revoke(revoked.ID), svc.Act(suspended.Account, "suspend", `{"reason":"x"}`),
			svc.Act(granted.Account, "grant", `{"tier":"developer"}`), svc.Act(resumed.Account, "resume", `{"reason":"y"}`),
		} {
			response.RequireError(problem.ServiceUnavailable, "The change is saved")
			require.Equal(t, "1", response.Header.Get("Retry-After"))
		}
		require.Equal(t, "revoked", svc.ListKeys("?account=" + revoked.Account)[0].Status)
		late := svc.Issue("") // a new key is shown before it is in effect
		storetest.Eventually(t, "a count of what is pending",
			func() bool { return svc.HasMetric("authquota_epoch_raises_pending 6") })

		s.Start() // with all data lost
		storetest.Eventually(t, "delivered without being asked", func() bool {
			n, err := s.Client().HLen(t.Context(), counter.Epochs).Result()
			// with a mark and the state of the suspended account
			return err == nil && n == 7 && svc.HasMetric("authquota_epoch_raises_pending 0")
		})
		for _, k := range []api.IssuedKey{revoked, suspended, granted, resumed} {
			require.Greater(t, svc.Principal(k.Key).Epoch, before[k.ID].Epoch)
		}
		require.NotNil(t, svc.Principal(revoked.Key).RevokedAt)
		require.True(t, svc.Principal(suspended.Key).Suspended)
		require.False(t, svc.Principal(resumed.Key).Suspended)
		require.Equal(t, api.Developer, svc.Principal(granted.Key).Tier)
		require.Equal(t, late.ID, svc.Principal(late.Key).Key)
		servicetest.Read[api.ListedKey](svc.Revoke(revoked.ID)) // now it is in effect, and a repetition confirms it
	})
}

// A service that ends between a change and its delivery leaves the delivery to the next one.
func TestPendingEpochIncrementsAreDeliveredAfterRestart(t *testing.T) {
	s := onStores(t)
	svc := s.Serve(t)
	key := svc.Issue("")
	before := svc.Principal(key.Key)
	s.Stop()
	svc.Revoke(key.ID).RequireError(problem.ServiceUnavailable)
	svc.Stop()
	s.Start()
	svc = s.Serve(t)
	storetest.Eventually(t, "delivered", func() bool {
		epoch, err := s.Client().HGet(t.Context(), counter.Epochs, key.Account).Int64()
		return err == nil && epoch > before.Epoch
	})
	require.NotNil(t, svc.Principal(key.Key).RevokedAt)
}

// A response without the change never carries the epoch after it, however changes and lookups
// interleave.
func TestStaleResponseNeverCarriesNewEpoch(t *testing.T) {
	s := onStores(t)
	svc := s.Serve(t)
	key := svc.Issue("")
	var done atomic.Bool
	var tiers sync.Map // by epoch
	var lookups sync.WaitGroup
	for range 4 {
		lookups.Go(func() {
			for !done.Load() {
				if a := svc.Resolve(key.Key); a.Status != http.StatusServiceUnavailable { // it changed on each attempt
					p := servicetest.Read[api.Principal](a)
					if before, seen := tiers.LoadOrStore(p.Epoch, p.Tier); seen && before != p.Tier {
						t.Errorf("epoch %d with the tiers %s and %s", p.Epoch, before, p.Tier)
					}
				}
			}
		})
	}
	for i := range 30 {
		to := []api.Tier{api.Developer, api.Free}[i%2]
		svc.Grant(key.Account, to)
		// From here on, every gateway that compares epochs looks up the key again and sees the
		// change.
		now := svc.Epoch(key.Account)
		p := svc.Principal(key.Key)
		require.Equal(t, to, p.Tier)
		require.GreaterOrEqual(t, p.Epoch, now)
		before, _ := tiers.LoadOrStore(p.Epoch, to)
		require.Equal(t, to, before, "a response with the old tier under the new epoch")
	}
	done.Store(true)
	lookups.Wait()
}

func TestTheServingRoleServes(t *testing.T) {
	admin := storetest.Postgres(t)
	role, asRole := storetest.Role(t, admin)
	s := sitekit.NewStores(t, admin, redistest.Start(t))
	cfg := s.Config()
	cfg.Database.ServingRole = role
	require.NoError(t, authquota.Migrate(t.Context(), cfg))

	s.Database = asRole
	svc, _ := startAt(t, s, begin, func(c *authquota.Config) { c.Database.AllowOwner = false })
	key := svc.Issue("")
	svc.Grant(key.Account, api.Developer)
	svc.Revoke(key.ID)
	require.NotNil(t, svc.Principal(key.Key).RevokedAt)
	charge(t, s, map[string]int{key.Account: 3})
	storetest.Eventually(t, "copied", func() bool { return svc.ListAccounts("")[0].UsedToday == 3 })
}

const olderKey = "jb-4711-a-key-of-another-form-that-is-long-enough-9x2Q"

// Keys are in the response that shows them once, and nowhere else: not in other responses, in the
// log, in the database or in mails.
func TestKeysAppearOnlyInTheirResponse(t *testing.T) {
	s := onStores(t)
	svc := s.Serve(t)
	key, test, ours := svc.Issue(""), svc.Issue("", "test", true), svc.Issue("")
	seen := fmt.Sprint(svc.Principal(key.Key), svc.ListKeys(""), svc.ListAccounts(""))
	svc.Suspend(key.Account, "x")
	svc.Revoke(test.ID)
	for _, invalid := range [][2]string{
		{"/internal/v1/principals", `{"digests":["` + key.Key + `"]}`},
		{"/operator/v1/keys?" + key.Key + "=x", ""},
		{"/operator/v1/keys", `{"useCase":"x","` + key.Key + `":1}`},
		{"/operator/v1/keys", `{"useCase":"instead of ` + key.Key + `"}`},
		{"/operator/v1/keys", `{"useCase":"x","account":"` + key.Key + `"}`},
		{"/operator/v1/keys/" + key.Key + "/revoke", ""},
		{"/operator/v1/accounts/" + key.Account + "/resume", `{"reason":"` + key.Key + `"}`},
	} {
		response := svc.Do(http.MethodPost, invalid[0], invalid[1])
		require.GreaterOrEqual(t, response.Status, 400, invalid)
		seen += response.Body
	}
	s.Stop()
	svc.Revoke(key.ID).RequireError(problem.ServiceUnavailable)
	seen += svc.Metrics()
	s.Start()

	// a person handles keys on the pages
	svc.Do(http.MethodPost, "/operator/v1/keys/import", olderLine(olderKey, "expiresAt", time.Now().AddDate(0, 6, 0)))
	b := svc.SignUp("ada@example.org")
	collected, id := svc.Obtain(b, "Website", api.TermsVersion)
	rotated := testkit.NewKey(b.Post("/account/keys/" + id + "/rotate"))
	b.Post("/account/keys/"+id+"/name", "name", ours.Key).Shows(http.StatusUnprocessableEntity)
	b.Post("/account/keys/new", "name", "x", "useCase", "instead of "+ours.Key).Shows(http.StatusUnprocessableEntity)
	for _, key := range []string{ours.Key, olderKey} {
		seen += b.Post("/account/keys/connect", "key", key+"x").
			Shows(http.StatusUnprocessableEntity, "This key is unknown").Body
		b.Post("/account/keys/connect", "key", key).Leads("/account/keys")
		b.Get("/account/keys?" + key)
		b.Get("/account/keys/" + key).Shows(http.StatusNotFound)
	}
	seen += b.Get("/account/keys").Body + b.Get("/account/keys/"+id).Body
	s.Mail(t, b.Email, "key-rotated", 1)
	svc.Stop()

	places := kept(t, svc)
	places["responses"] = seen
	for _, m := range s.Mails(t) {
		raw := storetest.Must(os.ReadFile(m.File))(t)
		places["mail "+m.Template] = m.Text + string(raw)
	}
	require.Contains(t, places["api_keys"], key.ID)
	require.Contains(t, places["log"], "/operator/v1/keys/{key}/revoke")
	secrets := []string{
		olderKey, string(apikey.OlderOf(olderKey)), string(testkit.Pepper), servicetest.Token(peer.Gateway),
	}
	for _, key := range []string{key.Key, test.Key, ours.Key, collected, rotated} {
		random := key[len("oda_live_") : len(key)-4] // the last four characters are public
		secrets = append(secrets, random, random[:16])
	}
	requireNone(t, secrets, places)
}

// kept returns what a stopped service has left: its log, and every table of its database by name.
func kept(t *testing.T, svc *sitekit.Site) map[string]string {
	t.Helper()
	places := svc.Open(t).Dump(t)
	places["log"] = svc.Log.String()
	return places
}

func requireNone(t *testing.T, secrets []string, places map[string]string) {
	t.Helper()
	for _, secret := range secrets {
		for place, text := range places {
			require.NotContains(t, text, secret, place)
		}
	}
}

func olderLine(key string, fields ...any) string {
	line := map[string]any{
		"sha256": string(apikey.OlderOf(key)), "prefix": "jb-", "lastFour": key[len(key)-4:], "useCase": "an older use",
		"tier": "developer", "expiresAt": "2027-06-01T00:00:00Z",
	}
	for i := 0; i < len(fields); i += 2 {
		line[fields[i].(string)] = fields[i+1]
	}
	encoded, _ := json.Marshal(line)
	return string(encoded)
}
