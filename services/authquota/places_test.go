package authquota_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
	keystore "opportunity.internal/services/authquota/internal/keys/store"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/secretbox"
	usagestore "opportunity.internal/services/authquota/internal/usage/store"
)

// For any interleaving of changes to keys, at most five keys are active (without those in their grace period) and at most five
// are in use; a key has at most one successor, and a request at most one key.
func TestNeverMoreThanFiveActiveKeys(t *testing.T) {
	r := &embeddedRedis{t: t, addr: "127.0.0.1:0"}
	r.Start()
	t.Cleanup(r.Stop)
	s := &stores{database: storetest.SQLite(t), redis: "redis://" + r.addr, counters: r}
	svc, clock := s.startMoved(t, begin)
	people := 0
	fewer(t, 25) // each run is a long sequence of actions
	rapid.Check(t, func(rt *rapid.T) {
		people++
		b := svc.browser()
		b.signIn(fmt.Sprintf("person%d@example.org", people))
		var older []string // keys of accounts that were not connected, some with several keys
		for range 2 {
			key := svc.issue(map[string]any{"expiresIn": "72h"})
			for range rapid.IntRange(0, 4).Draw(rt, "siblings") {
				svc.issue(map[string]any{"account": key.Account})
			}
			older = append(older, key.Key)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if rapid.IntRange(0, 5).Draw(rt, "wait") == 0 {
				clock.move(time.Duration(rapid.SampledFrom([]int{1, 23, 25, 73, 24 * 300}).Draw(rt, "hours")) * time.Hour)
				svc.renew(b)
			}
			keys, requests := svc.listKeys("?account="+b.account), svc.listRequests("?all=true")
			key, request := "key_0199a7a0000070008000000000000000", "req_0199a7a0000070008000000000000000"
			if len(keys) > 0 {
				key = rapid.SampledFrom(keys).Draw(rt, "key").ID
			}
			var mine []string
			for _, q := range requests {
				if q.Account == b.account {
					mine = append(mine, q.ID)
				}
			}
			if len(mine) > 0 {
				request = rapid.SampledFrom(mine).Draw(rt, "request")
			}
			acts := rapid.SliceOfN(rapid.SampledFrom([]string{
				"ask", "ask", "approve", "collect", "collect", "decline", "withdraw", "rotate", "rotate", "revoke", "connect", "issue",
			}), 1, 4).Draw(rt, "at once")
			presented := rapid.SampledFrom(older).Draw(rt, "presented")
			var all sync.WaitGroup
			for _, act := range acts {
				tab := *b
				all.Go(func() { tab.act(act, key, request, presented) })
			}
			all.Wait()
			svc.holdsItsPlaces(rt, b)
		}
	})
}

// act performs one action on the keys of the browser's account, allowed or not.
func (b *browser) act(act, key, request, presented string) {
	switch act {
	case "ask":
		b.requestKey("name", "Mine", "useCase", "testing")
	case "collect", "withdraw":
		b.post("/account/keys/requests/" + request + "/" + act)
	case "approve":
		b.svc.decide(request, act, nil)
	case "decline":
		b.svc.decide(request, act, `{"reason":"x"}`)
	case "rotate", "revoke":
		b.post("/account/keys/" + key + "/" + act)
	case "connect":
		b.connect(presented)
	case "issue":
		b.svc.do(http.MethodPost, "/operator/v1/keys", map[string]any{"useCase": "x", "account": b.account})
	}
}

func (s *service) holdsItsPlaces(t require.TestingT, b *browser) {
	active, taken, collected := 0, 0, 0
	predecessors := map[string]int{}
	keys := s.listKeys("?account=" + b.account)
	for _, k := range keys {
		if k.Status == "active" && k.ReplacedAt == nil {
			active++
		}
		if k.Successor != "" {
			predecessors[k.Successor]++
			require.NotNil(t, k.ReplacedAt)
			require.LessOrEqual(t, k.ExpiresAt.Sub(*k.ReplacedAt), account.Grace)
		}
	}
	taken = active
	for _, r := range s.listRequests("?all=true") {
		switch {
		case r.Account != b.account:
		case r.State == "asked", r.State == "approved":
			taken++
		case r.State == "collected":
			collected++
		}
	}
	require.LessOrEqual(t, active, 5)
	require.LessOrEqual(t, taken, 5)
	for _, n := range predecessors {
		require.Equal(t, 1, n)
	}
	var made int
	err := s.open(s.t).Raw("SELECT count(DISTINCT key_id) FROM key_requests WHERE account_id = ? AND state = 'collected'", b.account).Scan(&made).Error
	require.NoError(t, err)
	require.Equal(t, collected, made)
}

// The pages require an authenticator; the store also issues no key without one.
func TestStoreIssuesNoKeyWithoutAuthenticator(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *stores) {
		svc, clock := s.startMoved(t, begin)
		b := svc.browser()
		b.signIn("ada@example.org")
		_, id := b.obtain("Mine")
		r := b.ask("Another")
		svc.decide(r, "approve", nil)
		other := svc.issue(nil)
		db := s.open(t)
		require.NoError(t, db.Exec("UPDATE people SET totp_confirmed_at = NULL").Error)
		b.get("/account/keys").leads("/account/authenticator")

		box, err := secretbox.Parse(s.config().Encryption)
		require.NoError(t, err)
		kept := keystore.New(&dbtx.DB{DB: db, Now: clock.Now, Box: box, Mails: mail.NewWriter("https://api.example")}, usagestore.Move)
		fresh := account.KeyRecord{Digest: "0a", Prefix: "oda_live_", LastFour: "abcd"}
		ctx := t.Context()
		_, err = kept.RequestKey(ctx, b.account, account.RequestedKey{Name: "x", UseCase: "x"}, account.Acceptance{}, true)
		require.ErrorContains(t, err, "authenticator")
		_, err = kept.Collect(ctx, b.account, r, account.Acceptance{}, fresh)
		require.ErrorContains(t, err, "authenticator")
		_, _, err = kept.Rotate(ctx, b.account, id, fresh)
		require.ErrorContains(t, err, "authenticator")
		parsed, ok := apikey.Parse(other.Key)
		require.True(t, ok)
		_, err = kept.Connect(ctx, b.account, parsed.Digests([][]byte{pepper}))
		require.ErrorContains(t, err, "authenticator")
		require.Len(t, svc.listKeys("?account="+b.account), 1)
	})
}
