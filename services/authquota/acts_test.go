package authquota_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"opportunity.internal/services/authquota/internal/testkit/sitekit"
)

func TestAccountIsSuspendedResumedAndGranted(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		other := svc.issue(nil)
		otherBefore := svc.principal(other.Key)
		last := svc.principal(key.Key)
		next := func() api.Principal {
			t.Helper()
			p := svc.principal(key.Key)
			require.Greater(t, p.Epoch, last.Epoch)
			last = p
			return p
		}

		suspended := servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":" unpaid "}`))
		require.True(t, suspended.Suspended)
		require.Equal(t, "unpaid", *suspended.SuspendReason)
		require.NotNil(t, suspended.SuspendedAt)
		require.True(t, next().Suspended)
		again := servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":"not stated"}`))
		require.Empty(t, cmp.Diff(suspended, again), "twice is once")

		resumed := servicetest.Read[api.ListedAccount](svc.change(key.Account, "resume", `{"reason":"paid"}`))
		require.False(t, resumed.Suspended)
		require.Nil(t, resumed.SuspendedAt)
		require.Nil(t, resumed.SuspendReason)
		require.False(t, next().Suspended)
		require.Empty(t, cmp.Diff(resumed,
			servicetest.Read[api.ListedAccount](svc.change(key.Account, "resume", `{"reason":"paid"}`))))

		granted := servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		require.Equal(t, api.Developer, granted.Tier)
		p := next()
		require.Equal(t, api.Developer, p.Tier)
		require.Equal(t, 1000, p.Limits.PerDay)
		require.True(t, p.Limits.History)
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		svc.requireSame(p, key.Key)
		require.Equal(t, otherBefore, svc.principal(other.Key), "nobody else is touched")
	})
}

func TestInvalidAccountChangesAreRejected(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		for _, act := range []string{"suspend", "resume"} {
			svc.change(key.Account, act, nil).RequireError(problem.InvalidParameter, "reason")
			svc.change(key.Account, act, `{"reason":""}`).RequireError(problem.InvalidParameter, "reason")
			svc.change(key.Account, act, `{"reason":"a\nb"}`).RequireError(problem.InvalidParameter, "reason", "a line break")
			svc.change(key.Account, act, `{"reason":"x","until":"tomorrow"}`).RequireError(problem.InvalidParameter, "until")
		}
		svc.change(key.Account, "grant", nil).RequireError(problem.InvalidParameter, "tier")
		svc.change(key.Account, "grant", `{"tier":"business"}`).RequireError(problem.InvalidParameter, "tier", "commercial")
		svc.change(key.Account, "close", `{}`).RequireError(problem.NotFound)
		svc.do(http.MethodPost, "/operator/v1/keys/"+key.ID+"/revoke", `{"reason":"x"}`).
			RequireError(problem.InvalidParameter, "reason")
		for _, id := range []string{"x", "%00", key.ID, "acc_0199a7a0000070008000000000000000"} {
			svc.change(id, "suspend", `{"reason":"x"}`).RequireError(problem.NotFound)
			svc.change(id, "grant", `{"tier":"free"}`).RequireError(problem.NotFound)
		}
		anonymous := svc.doAs(http.MethodPost, "/operator/v1/accounts/"+key.Account+"/grant", `{"tier":"developer"}`,
			http.Header{"Authorization": {"Bearer " + servicetest.Token(peer.Gateway)}})
		require.GreaterOrEqual(t, anonymous.Status, 400, "no act without a name to record")
		require.Equal(t, api.Free, svc.listAccounts()[0].Tier)
		require.False(t, svc.listAccounts()[0].Suspended)
	})
}

// During a Redis outage no key is reported as invalid, and changes are saved until Redis is back.
func TestChangesAreSavedDuringRedisOutage(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		revoked, suspended, granted, resumed := svc.issue(nil), svc.issue(nil), svc.issue(nil), svc.issue(nil)
		servicetest.Read[api.ListedAccount](svc.change(resumed.Account, "suspend", `{"reason":"x"}`))
		before := map[string]api.Principal{}
		for _, k := range []api.IssuedKey{revoked, suspended, granted, resumed} {
			before[k.ID] = svc.principal(k.Key)
		}

		s.Stop()
		down := svc.resolve(revoked.Key)
		down.RequireError(problem.ServiceUnavailable)
		require.Equal(t, "1", down.Header.Get("Retry-After"))
		svc.resolve("oda_live_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg_2MILV8").RequireError(problem.ServiceUnavailable)
		svc.do(http.MethodGet, "/internal/v1/key-digests", nil).RequireError(problem.ServiceUnavailable)
		svc.revoke(revoked.ID).RequireError(problem.ServiceUnavailable, "The change is saved")
		again := svc.revoke(revoked.ID)
		again.RequireError(problem.ServiceUnavailable, "The change is saved")
		require.Equal(t, "1", again.Header.Get("Retry-After"))
		svc.change(suspended.Account, "suspend", `{"reason":"x"}`).
			RequireError(problem.ServiceUnavailable, "The change is saved")
		svc.change(granted.Account, "grant", `{"tier":"developer"}`).
			RequireError(problem.ServiceUnavailable, "The change is saved")
		svc.change(resumed.Account, "resume", `{"reason":"y"}`).
			RequireError(problem.ServiceUnavailable, "The change is saved")
		require.Equal(t, "revoked", svc.listKeys("?account=" + revoked.Account)[0].Status)
		late := svc.issue(nil) // a new key is shown before it is in effect
		storetest.Eventually(t, "a count of what is pending", func() bool {
			return strings.Contains(svc.Metrics(), "authquota_epoch_raises_pending 6")
		})

		s.Start() // with all data lost
		storetest.Eventually(t, "delivered without being asked", func() bool {
			n, err := s.Client().HLen(t.Context(), counter.Epochs).Result()
			// with a mark and the state of the suspended account
			return err == nil && n == 7 && svc.HasMetric("authquota_epoch_raises_pending 0")
		})
		for _, k := range []api.IssuedKey{revoked, suspended, granted, resumed} {
			require.Greater(t, svc.principal(k.Key).Epoch, before[k.ID].Epoch)
		}
		require.NotNil(t, svc.principal(revoked.Key).RevokedAt)
		require.True(t, svc.principal(suspended.Key).Suspended)
		require.False(t, svc.principal(resumed.Key).Suspended)
		require.Equal(t, api.Developer, svc.principal(granted.Key).Tier)
		require.Equal(t, late.ID, svc.principal(late.Key).Key)
		servicetest.Read[api.ListedKey](svc.revoke(revoked.ID)) // now it is in effect, and a repetition confirms it
	})
}

// A service that ends between a change and its delivery leaves the delivery to the next one.
func TestPendingEpochIncrementsAreDeliveredAfterRestart(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		before := svc.principal(key.Key)
		s.Stop()
		svc.revoke(key.ID).RequireError(problem.ServiceUnavailable)
		svc.stop()
		s.Start()
		svc = s.start(t)
		storetest.Eventually(t, "delivered", func() bool {
			epoch, err := s.Client().HGet(t.Context(), counter.Epochs, key.Account).Int64()
			return err == nil && epoch > before.Epoch
		})
		require.NotNil(t, svc.principal(key.Key).RevokedAt)
	})
}

func TestEpochsRecoverAfterFlush(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		before := svc.principal(key.Key)
		s.Flush()
		after := svc.principal(key.Key)
		require.Equal(t, before.Epoch, after.Epoch, "nothing changed")
		svc.change(key.Account, "grant", `{"tier":"gold"}`).RequireError(problem.InvalidParameter)
		require.Equal(t, before.Epoch, svc.principal(key.Key).Epoch, "nothing was done")
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":"x"}`))
		require.Greater(t, svc.principal(key.Key).Epoch, after.Epoch)
		ttl := s.Client().TTL(t.Context(), counter.Epochs).Val()
		require.Greater(t, ttl, counter.EpochsTTL-time.Hour)
		require.LessOrEqual(t, ttl, counter.EpochsTTL)
	})
}

// Setting the clock back must not restore an epoch that a gateway may still have cached.
func TestEpochsIncreaseWhenClockIsSetBack(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		ahead := time.Now().Add(time.Hour).UnixMicro()
		require.NoError(t, servicetest.OpenDatabase(t, s.Database).Exec("UPDATE accounts SET epoch = ?", ahead).Error)
		require.Equal(t, ahead, svc.principal(key.Key).Epoch)
		servicetest.Read[api.ListedKey](svc.revoke(key.ID))
		require.Greater(t, svc.principal(key.Key).Epoch, ahead)
	})
}

// A response without the change never carries the epoch after it, however revocations and lookups
// interleave.
func TestStaleResponseNeverCarriesNewEpoch(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key := svc.issue(nil)
		var done atomic.Bool
		var mu sync.Mutex
		tiers := map[int64]map[api.Tier]bool{}
		var askers sync.WaitGroup
		for range 4 {
			askers.Go(func() {
				for !done.Load() {
					a := svc.resolve(key.Key)
					if a.Status == http.StatusServiceUnavailable { // the account changed on each attempt
						continue
					}
					p := servicetest.Read[api.Principal](a)
					mu.Lock()
					if tiers[p.Epoch] == nil {
						tiers[p.Epoch] = map[api.Tier]bool{}
					}
					tiers[p.Epoch][p.Tier] = true
					mu.Unlock()
				}
			})
		}
		for i := range 30 {
			to := api.Developer
			if i%2 == 1 {
				to = api.Free
			}
			servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", map[string]any{"tier": to}))
			// From here on, every gateway that compares epochs looks up the key again and sees the
			// change.
			now, err := s.Client().HGet(t.Context(), counter.Epochs, key.Account).Int64()
			require.NoError(t, err)
			p := svc.principal(key.Key)
			require.Equal(t, to, p.Tier)
			require.GreaterOrEqual(t, p.Epoch, now)
			mu.Lock()
			seen := slices.Collect(maps.Keys(tiers[p.Epoch]))
			mu.Unlock()
			for _, tier := range seen {
				require.Equal(t, to, tier, "an answer of the old tier under the new epoch")
			}
		}
		done.Store(true)
		askers.Wait()
	})
}

func TestEveryAccountChangeIsInTheAuditLog(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		svc := s.start(t, func(c *authquota.Config) { c.Now = func() time.Time { return now } })
		key := svc.issue(map[string]any{"useCase": "a newsletter", "expiresIn": "1h"})
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":"unpaid"}`))
		// changes nothing: no entry
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":"unpaid"}`))
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "resume", `{"reason":"paid"}`))
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"commercial"}`))
		servicetest.Read[api.ListedKey](svc.revoke(key.ID))
		servicetest.Read[api.ListedKey](svc.revoke(key.ID))
		svc.change(key.Account, "grant", `{"tier":"gold"}`).RequireError(problem.InvalidParameter) // rejected: no entry

		at := fmt.Sprint(now.UnixMicro())
		require.Equal(t, []string{
			at + " ada account.create " + key.Account + ` {"tier":"free"}`,
			at + " ada key.issue " + key.ID + ` {"account":"` + key.Account +
				`","expiresAt":"2026-11-20T11:00:00Z","test":false,"tier":"free","useCase":"a newsletter"}`,
			at + " ada account.suspend " + key.Account + ` {"reason":"unpaid"}`,
			at + " ada account.resume " + key.Account + ` {"reason":"paid"}`,
			at + " ada account.grant " + key.Account + ` {"from":"free","to":"commercial"}`,
			at + " ada key.revoke " + key.ID + ` {"account":"` + key.Account + `"}`,
		}, s.open(t).AuditLog(t))
	})
}

func TestTheServingRoleServes(t *testing.T) {
	admin := storetest.Postgres(t)
	role, asRole := storetest.Role(t, admin)
	r := redistest.Start(t)
	s := &stores{Stores: sitekit.Stores{Redis: r, Database: admin, RedisURL: r.URL}}
	cfg := s.Config()
	cfg.Database.ServingRole = role
	require.NoError(t, authquota.Migrate(t.Context(), cfg))

	s.Database = asRole
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	svc := s.start(t, func(c *authquota.Config) {
		c.Now, c.Database.AllowOwner = func() time.Time { return now }, false
	})
	key := svc.issue(nil)
	servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
	servicetest.Read[api.ListedKey](svc.revoke(key.ID))
	require.NotNil(t, svc.principal(key.Key).RevokedAt)
	s.charge(t, "2026-11-20", map[string]int{key.Account: 3})
	storetest.Eventually(t, "copied", func() bool { return svc.listAccounts()[0].UsedToday == 3 })
}

func TestKeysAppearOnlyInTheirResponse(t *testing.T) {
	onStores(t, func(t *testing.T, s *stores) {
		svc := s.start(t)
		key, test := svc.issue(nil), svc.issue(map[string]any{"test": true})
		svc.principal(key.Key)
		svc.listKeys("")
		svc.listAccounts()
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "suspend", `{"reason":"x"}`))
		servicetest.Read[api.ListedKey](svc.revoke(test.ID))
		svc.do(http.MethodPost, "/internal/v1/principals", `{"digests":["`+key.Key+`"]}`).
			RequireError(problem.InvalidParameter)
		svc.do(http.MethodGet, "/operator/v1/keys?account="+key.Key, nil).RequireError(problem.NotFound)
		svc.do(http.MethodGet, "/operator/v1/keys?"+key.Key+"=x", nil).RequireError(problem.UnknownParameter)
		svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","`+key.Key+`":1}`).RequireError(problem.InvalidParameter)
		svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"x","account":"`+key.Key+`"}`).RequireError(problem.NotFound)
		svc.revoke(key.Key).RequireError(problem.NotFound)
		svc.do(http.MethodPost, "/operator/v1/keys", `{"useCase":"instead of `+key.Key+`"}`).
			RequireError(problem.InvalidParameter, "useCase")
		svc.change(key.Account, "resume", `{"reason":"`+key.Key+`"}`).RequireError(problem.InvalidParameter, "reason")
		s.Stop()
		svc.revoke(key.ID).RequireError(problem.ServiceUnavailable)
		svc.Metrics()
		s.Start()
		svc.handledByAPerson(t)
		svc.stop()

		places := map[string]string{"answers": svc.seen.String(), "log": svc.Log.String()}
		for table, rows := range s.open(t).Dump(t) {
			places["table "+table] = rows
		}
		for _, m := range s.mails(t) {
			places["mail "+m.name] = m.raw + m.plain + m.html
		}
		require.Contains(t, places["table api_keys"], key.ID)
		require.Contains(t, places["log"], "/operator/v1/keys/{key}/revoke")
		for _, secret := range svc.keys {
			random := secret[len("oda_live_") : len(secret)-4] // the last four characters are public
			for place, text := range places {
				require.NotContains(t, text, random, place)
				require.NotContains(t, text, random[:16], place)
				require.NotContains(t, text, string(pepper), place)
				require.NotContains(t, text, servicetest.Token(peer.Gateway), place)
			}
		}
	})
}

// handledByAPerson does everything to keys that people can do on their pages.
func (s *service) handledByAPerson(t *testing.T) {
	t.Helper()
	const older = "jb-4711-a-key-of-another-form-that-is-long-enough-9x2Q"
	ours := s.issue(nil)
	require.True(t, s.importKeys(olderLine(older, map[string]any{"expiresAt": time.Now().AddDate(0, 6, 0)})).Applied)
	b := s.browser()
	b.signUp("ada@example.org")
	_, id := b.obtain("Website")
	_, _ = b.secret(b.Post("/account/keys/" + id + "/rotate"))
	b.Post("/account/keys/"+id+"/name", "name", ours.Key).Shows(http.StatusUnprocessableEntity)
	b.Post("/account/keys/new", "name", "x", "useCase", "instead of "+ours.Key).Shows(http.StatusUnprocessableEntity)
	for _, key := range []string{ours.Key, older} {
		require.NotContains(t, b.connect(key+"x").Shows(http.StatusUnprocessableEntity, "This key is unknown").Body, key)
		b.connect(key).Leads("/account/keys")
		b.Get("/account/keys?" + key)
		b.Get("/account/keys/" + key).Shows(http.StatusNotFound)
	}
	pages := b.Get("/account/keys").Body
	for _, k := range s.listKeys("?account=" + b.Account) {
		pages += b.Get("/account/keys/" + k.ID).Body
	}
	_, _ = s.seen.Write([]byte(pages))
	s.keys = append(s.keys, older, string(apikey.OlderOf(older)))
	storetest.Eventually(t, "mails are written", func() bool { return s.waiting(t) == 0 })
}

func (s *service) audit(query string) api.AuditList {
	s.t.Helper()
	return servicetest.Read[api.AuditList](s.do(http.MethodGet, "/operator/v1/audit"+query, nil))
}

// lines formats the entries as lines.
func lines(entries []api.AuditEntry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, e.Actor+" "+e.Action+" "+e.Subject)
	}
	return lines
}

func actionsOf(entries []api.AuditEntry) (actions []string) {
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	return actions
}

func TestOperatorsReadTheAuditLog(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		key, other := svc.issue(nil), svc.issue(nil)
		now.Advance(time.Hour)
		servicetest.Read[api.ListedAccount](svc.change(key.Account, "grant", `{"tier":"developer"}`))
		now.Advance(time.Hour)
		servicetest.Read[api.ListedKey](svc.revoke(key.ID))
		browser := svc.browser()
		browser.signUp("ada@example.org")
		browser.Post("/account/sign-out").Leads("/account/sign-in")

		all := svc.audit("")
		require.Zero(t, all.Next)
		require.Len(t, all.Entries, 10)
		require.Equal(t, browser.Account, all.Entries[0].Actor, "newest first: what people do is there too")
		require.Equal(t, all, svc.audit(""), "reading leaves no entry")
		ours := []string{
			"ada key.revoke " + key.ID, "ada account.grant " + key.Account, "ada key.issue " + key.ID,
			"ada account.create " + key.Account,
		}
		require.Equal(t, ours, lines(svc.audit("?account="+key.Account).Entries), "and its keys")
		require.Equal(t, ours[:2], lines(svc.audit("?account="+key.Account+"&since=2026-11-20T11:00:00Z").Entries))
		require.Equal(t, []string{"ada key.revoke " + key.ID, "ada key.issue " + other.ID, "ada key.issue " + key.ID},
			lines(svc.audit("?action=key.").Entries))
		require.Equal(t, ours[1:2], lines(svc.audit("?action=account.grant&actor=ada").Entries))
		require.Equal(t, []string{"session.end", "person.sign_in", "factor.add", "person.sign_up"},
			actionsOf(svc.audit("?actor="+browser.Account).Entries))
		require.Empty(t, svc.audit("?actor=nobody").Entries)
		require.Empty(t, svc.audit("?action=account_grant").Entries)

		granted := svc.audit("?action=account.grant").Entries[0]
		require.Equal(t, begin.Add(time.Hour), granted.At)
		require.JSONEq(t, `{"from":"free","to":"developer"}`, string(granted.Detail))

		var paged []api.AuditEntry
		pages := 0
		for query := "?limit=3"; ; pages++ {
			page := svc.audit(query)
			paged = append(paged, page.Entries...)
			if page.Next == 0 {
				break
			}
			require.Len(t, page.Entries, 3)
			query = fmt.Sprintf("?limit=3&before=%d", page.Next)
		}
		require.Equal(t, 3, pages)
		require.Equal(t, all.Entries, paged)

		for query, name := range map[string]string{
			"account=x": "account", "action=%25": "action", "action=KEY": "action", "since=yesterday": "since",
			"limit=0": "limit", "limit=1001": "limit",
			"before=-1": "before", "before=x": "before",
		} {
			svc.do(http.MethodGet, "/operator/v1/audit?"+query, nil).RequireError(problem.InvalidParameter, name)
		}
		svc.do(http.MethodGet, "/operator/v1/audit?subject=x", nil).RequireError(problem.UnknownParameter)
	})
}

func TestOperatorsFindAndSeeAccounts(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		now := servicetest.NewClock(begin)
		svc := s.start(t, on(now))
		noPerson := svc.issue(nil)
		ada, bob := svc.browser(), svc.browser()
		ada.signUp("ada_l@example.org")
		bob.signUp("adam@example.org")
		find := func(email string) (ids []string) {
			t.Helper()
			for _, a := range servicetest.Read[api.AccountList](
				svc.do(http.MethodGet, "/operator/v1/accounts?email="+url.QueryEscape(email), nil)).Accounts {
				ids = append(ids, a.ID)
			}
			return ids
		}
		require.Equal(t, []string{ada.Account}, find("ada_l@example.org"))
		require.Equal(t, []string{ada.Account}, find("ADA_L"))
		require.Equal(t, []string{ada.Account, bob.Account}, find("ada"))
		require.Equal(t, []string{ada.Account, bob.Account}, find("@example.org"))
		require.Empty(t, find("a%a"))
		require.Empty(t, find("ad__"), "a part is no pattern")

		var ids []string
		for query := "?limit=1"; query != ""; {
			page := servicetest.Read[api.AccountList](svc.do(http.MethodGet, "/operator/v1/accounts"+query, nil))
			require.Len(t, page.Accounts, 1)
			ids = append(ids, page.Accounts[0].ID)
			query = ""
			if page.Next != "" {
				query = "?limit=1&after=" + page.Next
			}
		}
		require.Equal(t, []string{noPerson.Account, ada.Account, bob.Account}, ids)
		svc.do(http.MethodGet, "/operator/v1/accounts?after=x", nil).RequireError(problem.InvalidParameter, "after")
		svc.do(http.MethodGet, "/operator/v1/accounts?limit=x", nil).RequireError(problem.InvalidParameter, "limit")

		key := svc.issue(map[string]any{"account": ada.Account})
		second := svc.issue(map[string]any{"account": ada.Account})
		page := servicetest.Read[api.KeyList](svc.do(http.MethodGet, "/operator/v1/keys?limit=1&account="+ada.Account, nil))
		require.Equal(t, key.ID, page.Next)
		page = servicetest.Read[api.KeyList](
			svc.do(http.MethodGet, "/operator/v1/keys?limit=1&account="+ada.Account+"&after="+page.Next, nil))
		require.Equal(t, second.ID, page.Keys[0].ID)
		require.Empty(t, page.Next)

		servicetest.Read[api.ListedAccount](svc.change(ada.Account, "suspend", `{"reason":"unpaid"}`))
		s.charge(t, "2026-11-20", map[string]int{ada.Account: 7})
		show := func(id string) api.AccountDetail {
			t.Helper()
			return servicetest.Read[api.AccountDetail](svc.do(http.MethodGet, "/operator/v1/accounts/"+id, nil))
		}
		storetest.Eventually(t, "usage", func() bool { return show(ada.Account).UsedToday == 7 })
		seen := show(ada.Account)
		require.Equal(t, &api.AccountPerson{Email: "ada_l@example.org", AuthenticatorConfirmed: true, RecoveryCodesLeft: 10,
			Sessions: 1, CreatedAt: begin}, seen.Person)
		require.True(t, seen.Suspended)
		require.Equal(t, "unpaid", *seen.SuspendReason)
		require.Len(t, seen.Keys, 2)
		require.Equal(t, 100, seen.PerDay)
		require.Equal(t, []string{"ada account.suspend " + ada.Account, "ada key.issue " + second.ID,
			"ada key.issue " + key.ID}, lines(seen.Audit[:3]))
		require.Nil(t, show(noPerson.Account).Person)
		var whole map[string]any
		require.NoError(t, json.Unmarshal(
			[]byte(svc.do(http.MethodGet, "/operator/v1/accounts/"+noPerson.Account, nil).Body), &whole))
		require.Equal(t, []any{}, whole["requests"], "an empty list is a list")
		now.Advance(31 * time.Minute)
		require.Zero(t, show(ada.Account).Person.Sessions, "nobody has used it for half an hour")
		servicetest.Read[api.ListedAccount](svc.change(ada.Account, "resume", `{"reason":"paid"}`))
		ada.SignIn()
		ada.Post("/account/security/close", "email", ada.Email).Leads("/account/sign-in")
		require.Empty(t, show(ada.Account).Person.Email)
		require.Equal(t, "closed", show(ada.Account).Status)
		require.Equal(t, []string{bob.Account}, find("@example.org"))
		require.Empty(t, find("closed"))
		svc.do(http.MethodGet, "/operator/v1/accounts/x", nil).RequireError(problem.NotFound)
		svc.do(http.MethodGet, "/operator/v1/accounts/acc_0199a7a0000070008000000000000000", nil).
			RequireError(problem.NotFound)
	})
}
