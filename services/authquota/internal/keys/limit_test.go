package keys_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pgregory.net/rapid"

	"opportunity.internal/services/authquota/internal/keys"
)

// A check of the only property of this package takes hundreds of transactions. Flag -rapid.checks
// runs more.
func init() {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}

// For any interleaving of changes to keys, at most five keys are active (without those in their
// grace period) and at most five are in use; a key has at most one successor, and a request at most
// one key.
func TestNeverMoreThanFiveActiveKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		people, secrets := 0, 1000
		rapid.Check(t, func(rt *rapid.T) {
			people++
			l := limits{f, f.person(fmt.Sprintf("person%d@example.org", people)), &secrets, new(sync.Mutex)}
			var older []string // digests of keys of accounts that were not connected, some with several keys
			for range 2 {
				key, digest := f.issue(keys.Order{}, 72*time.Hour)
				for range rapid.IntRange(0, 4).Draw(rt, "siblings") {
					f.issue(keys.Order{Account: key.Account}, keys.MaxLife)
				}
				older = append(older, digest)
			}
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				if rapid.IntRange(0, 5).Draw(rt, "wait") == 0 {
					f.db.Advance(time.Duration(rapid.SampledFrom([]int{1, 23, 25, 73, 24 * 300}).Draw(rt, "hours")) * time.Hour)
				}
				key, request := keys.NewID(), keys.NewRequestID()
				if keys := l.keys(rt); len(keys) > 0 {
					key = rapid.SampledFrom(keys).Draw(rt, "key").ID
				}
				if requests := l.requests(rt); len(requests) > 0 {
					request = rapid.SampledFrom(requests).Draw(rt, "request").ID
				}
				actions := rapid.SliceOfN(rapid.SampledFrom([]string{
					"request", "request", "approve", "collect", "collect", "decline", "withdraw", "rotate", "rotate", "revoke", "connect", "issue",
				}), 1, 4).Draw(rt, "at once")
				presented := rapid.SampledFrom(older).Draw(rt, "presented")
				atOnce(len(actions), func(i int) error { return l.act(actions[i], key, request, presented) })
				l.hold(rt)
			}
		})
	})
}

// limits are the keys of one account.
type limits struct {
	fixture

	id      string
	secrets *int
	mu      *sync.Mutex
}

func (l limits) next() keys.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.secrets++
	return stored(*l.secrets)
}

// act performs one action on the keys of the account, allowed or not.
func (l limits) act(action, key, request, presented string) (err error) {
	ctx := l.t.Context()
	switch action {
	case "request":
		_, err = l.RequestKey(ctx, l.id, keys.RequestedKey{Name: "Mine", UseCase: "testing"}, accepted, false)
	case "approve":
		_, err = l.Decide(ctx, "ada", request, keys.Approve())
	case "decline":
		_, err = l.Decide(ctx, "ada", request, keys.Decide{State: keys.Declined, Reason: "x"})
	case "collect":
		_, err = l.Collect(ctx, l.id, request, accepted, l.next())
	case "withdraw":
		err = l.Withdraw(ctx, l.id, request)
	case "rotate":
		_, _, err = l.Rotate(ctx, l.id, key, l.next())
	case "revoke":
		_, err = l.RevokeOwn(ctx, l.id, key)
	case "connect":
		_, err = l.Connect(ctx, l.id, []string{presented})
	case "issue":
		_, err = l.Issue(ctx, "ada", keys.Order{Account: l.id, UseCase: "x"}, keys.MaxLife, l.next())
	}
	return err
}

func (l limits) keys(t require.TestingT) []keys.Key {
	keys, err := l.OwnKeys(l.t.Context(), l.id)
	require.NoError(t, err)
	return keys
}

// ownRequest is a row of a request.
type ownRequest struct {
	ID    string
	State keys.RequestState
}

// requests returns all requests of the account.
func (l limits) requests(t require.TestingT) (own []ownRequest) {
	require.NoError(t, l.db.Table("key_requests").Order("id").Find(&own, "account_id = ?", l.id).Error)
	return own
}

func (l limits) hold(t require.TestingT) {
	active, collected := 0, 0
	predecessors := map[string]int{}
	for _, k := range l.keys(t) {
		if k.Counts(l.db.Now()) {
			active++
		}
		if k.Successor != "" {
			predecessors[k.Successor]++
			require.NotNil(t, k.ReplacedAt)
			require.LessOrEqual(t, k.ExpiresAt.Sub(*k.ReplacedAt), keys.Grace)
		}
	}
	inUse := active
	for _, r := range l.requests(t) {
		switch {
		case r.State.Open():
			inUse++
		case r.State == keys.Collected:
			collected++
		}
	}
	require.LessOrEqual(t, active, keys.MaxActive)
	require.LessOrEqual(t, inUse, keys.MaxActive)
	for _, n := range predecessors {
		require.Equal(t, 1, n)
	}
	var made int
	err := l.db.Raw("SELECT count(DISTINCT key_id) FROM key_requests WHERE account_id = ? AND state = 'collected'", l.id).Scan(&made).Error
	require.NoError(t, err)
	require.Equal(t, collected, made)
}
