package authquota_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/testkit"
)

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
		servicetest.Read[listedKey](svc.revoke(svc.issue(map[string]any{"account": operators.Account}).ID))
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
		require.Equal(t, map[string]string{"*": "60", b.Account: "60"}, day, "the sum, once; nothing of it is another call of the service")
		epochs := s.Client().HGetAll(t.Context(), counter.Epochs).Val()
		require.NotEmpty(t, epochs[operators.Account])
		require.NotEqual(t, fmt.Sprint(theirs.Epoch), epochs[operators.Account], "what gateways keep of the other account is out of date")
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
		require.Equal(t, http.StatusNotFound, svc.do(http.MethodPost, "/operator/v1/keys", map[string]any{"useCase": "x", "account": operators.Account}).Status)
		require.Contains(t, s.sent(t, 2), "Your plan is now commercial")
	})
}

// Usage moves even if Redis is unavailable while the key is connected, or loses its data before or
// after the move.
func TestUsageMovesOnceDespiteRedisLosses(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *stores, svc *service, connect func()){
		"before":                func(_ *testing.T, s *stores, _ *service, connect func()) { s.Flush(); connect() },
		"after":                 func(_ *testing.T, s *stores, _ *service, connect func()) { connect(); s.Flush() },
		"during":                func(_ *testing.T, s *stores, _ *service, connect func()) { s.Stop(); connect(); s.Start() },
		"after, with a restart": func(_ *testing.T, s *stores, _ *service, connect func()) { connect(); s.Stop(); s.Start() },
		"after, with a restore": func(_ *testing.T, s *stores, svc *service, connect func()) {
			connect()
			s.Flush()
			svc.restore(today)
			s.Flush()
		},
		"never": func(_ *testing.T, _ *stores, _ *service, connect func()) { connect() },
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, s *stores) {
				svc, _ := s.startAt(t, begin)
				b, c := svc.browser(), s.Client()
				b.signUp("ada@example.org")
				key := svc.issue(nil)
				s.charge(t, today, map[string]int{counter.ServiceField: 50, b.Account: 20, key.Account: 30})
				copied := dayUsage{Day: today, Service: 50, Accounts: map[string]int{b.Account: 20, key.Account: 30}}
				svc.eventually(copied)
				lose(t, s, svc, func() { b.connect(key.Key).Leads("/account/keys") })
				svc.restore(today)
				storetest.Eventually(t, "the sum, once", func() bool {
					day, err := c.HMGet(t.Context(), counter.Day(today), counter.ServiceField, b.Account, key.Account).Result()
					return err == nil && cmp.Equal([]any{"50", "50", nil}, day)
				})
				day := svc.ledger()
				storetest.Eventually(t, "the ledger follows", func() bool {
					counts := day(today)
					return counts.Service == 50 && counts.Accounts[b.Account] == 50
				})
				require.Equal(t, b.Account, svc.principal(key.Key).Account)
			})
		})
	}
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

// restore restores a day missing in Redis, as the gateway requests before it charges anything.
func (s *service) restore(day string) {
	s.t.Helper()
	require.Equal(s.t, http.StatusNoContent, s.do(http.MethodPost, "/internal/v1/usage/"+day+"/restore", nil).Status)
}
