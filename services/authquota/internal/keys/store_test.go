package keys_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/testkit"
)

// fixture is a store on a new database.
type fixture struct {
	*keys.Store

	db testkit.DB
	t  *testing.T
	n  *atomic.Int64 // keys so far
}

func onBoth(t *testing.T, test func(t *testing.T, f fixture)) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		test(t, fixture{keys.NewStore(db.DB), db, t, new(atomic.Int64)})
	})
}

var accepted = account.Acceptance{Version: "1", Accepted: true}

// stored returns the stored form of the n-th key.
func stored(n int) keys.Record {
	return keys.Record{Digest: digest(n), Prefix: "oda_live_", LastFour: fmt.Sprintf("%04d", n)}
}

func digest(n int) string { return fmt.Sprintf("%016x%048x", n, n) }

// issue creates a key on behalf of an operator and returns it with its digest.
func (f fixture) issue(order api.KeyOrder, life time.Duration) (keys.Key, string) {
	f.t.Helper()
	n := int(f.n.Add(1))
	order.UseCase = "testing"
	if order.Account == "" {
		order.Tier = api.Free
	}
	key := storetest.Must(f.Issue(f.t.Context(), "ada", order, life, stored(n)))(f.t)
	return key, digest(n)
}

// rotate rotates a key of an account and returns its successor.
func (f fixture) rotate(accountID, key string) (keys.Key, error) {
	successor, _, err := f.Rotate(f.t.Context(), accountID, key, stored(int(f.n.Add(1))))
	return successor, err
}

func (f fixture) person(email string) string {
	f.t.Helper()
	id, _ := f.db.Person(f.t, email)
	return id
}

// request returns an approved request of an account.
func (f fixture) request(accountID string) string {
	f.t.Helper()
	r, err := f.RequestKey(f.t.Context(), accountID, keys.RequestedKey{Name: "Mine", UseCase: "testing"}, accepted, true)
	require.NoError(f.t, err)
	return r.ID
}

// succeeded returns the number of nil errors. All others must contain the text.
func succeeded(t *testing.T, errs []error, otherwise string) (n int) {
	t.Helper()
	for _, err := range errs {
		if err == nil {
			n++
			continue
		}
		require.ErrorContains(t, err, otherwise)
	}
	return n
}

// The pages require an authenticator; the store also issues no key without one.
func TestNoKeyWithoutAuthenticator(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		collected := storetest.Must(f.Collect(ctx, id, f.request(id), accepted, stored(100)))(t)
		open := f.request(id)
		_, other := f.issue(api.KeyOrder{}, keys.MaxLife)
		require.NoError(t, f.db.Exec("UPDATE people SET totp_confirmed_at = NULL").Error)

		_, err := f.RequestKey(ctx, id, keys.RequestedKey{Name: "x", UseCase: "x"}, accepted, true)
		require.ErrorContains(t, err, "authenticator")
		require.ErrorContains(t, storetest.Err(f.Collect(ctx, id, open, accepted, stored(101))), "authenticator")
		require.ErrorContains(t, storetest.Err(f.rotate(id, collected.ID)), "authenticator")
		require.ErrorContains(t, storetest.Err(f.Connect(ctx, id, []string{other})), "authenticator")
		require.Len(t, storetest.Must(f.OwnKeys(ctx, id))(t), 1)
	})
}

// Concurrent decisions result in one decision, with one mail and one audit log entry. Operators who
// decided otherwise get an error.
func TestConcurrentDecisionsMakeOne(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		r := storetest.Must(f.RequestKey(ctx, id, keys.RequestedKey{Name: "x", UseCase: "x"}, accepted, false))(t)
		decisions := []keys.Decide{{State: keys.Approved}, {State: keys.Declined, Reason: "no"}}
		errs := storetest.Together(8, func(i int) error {
			return storetest.Err(f.Decide(ctx, "ada", r.ID, decisions[i%2]))
		})
		require.Equal(t, 4, succeeded(t, errs, "by ada"))
		require.Len(t, f.db.TakeMails(t), 1)
		require.Len(t, f.db.Actions(t, "ada"), 1)
	})
}

func TestRequestIsCollectedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		r := f.request(id)
		errs := storetest.Together(6, func(i int) error {
			return storetest.Err(f.Collect(ctx, id, r, accepted, stored(100+i)))
		})
		require.Equal(t, 1, succeeded(t, errs, "already collected"))
		require.ErrorContains(t, f.Withdraw(ctx, id, r), "already collected")
		other := f.request(id)
		require.ErrorContains(t, storetest.Err(f.Collect(ctx, account.NewID(), other, accepted, stored(200))), "no account")
		require.ErrorContains(t, f.Withdraw(ctx, account.NewID(), other), "no request")
		require.NoError(t, f.Withdraw(ctx, id, other))
		require.NoError(t, f.Withdraw(ctx, id, other), "again")
		require.Error(t, storetest.Err(f.Collect(ctx, id, other, accepted, stored(200))))
	})
}

func TestRevokingRaisesTheEpochAndNotifiesOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		key, at := f.issue(api.KeyOrder{Account: id}, keys.MaxLife)
		f.db.TakeTouched(t)
		revoked := storetest.Must(f.Revoke(ctx, "bob", key.ID, true))(t)
		require.Equal(t, keys.Revoked, revoked.StatusAt(f.db.Now()))
		require.Equal(t, revoked.RevokedAt, storetest.Must(f.RevokeOwn(ctx, id, key.ID))(t).RevokedAt)
		require.Equal(t, []string{id, id}, f.db.TakeTouched(t),
			"also for a repetition: the revocation may not be in effect yet")
		require.Len(t, f.db.TakeMails(t), 1)
		resolved := storetest.Must(f.Resolve(ctx, []string{at}))(t)
		require.False(t, resolved.Suspended)
		require.NotNil(t, resolved.RevokedAt)

		require.ErrorContains(t, storetest.Err(f.RevokeOwn(ctx, account.NewID(), key.ID)), "no key", "of another account")
		require.ErrorContains(t, storetest.Err(f.Revoke(ctx, "bob", keys.NewID(), false)), "no key")
	})
}

// key.import, key.issue and key.revoke must leave no partial import: a rejected line imports
// nothing.
func TestImportIsAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := context.Background()
		line := func(n int, key string, ends time.Time) keys.Older {
			return keys.Older{Line: n, OlderKey: api.OlderKey{
				SHA256: strings.Repeat(key, 64), Prefix: "jb-", LastFour: "9x2Q", UseCase: "x", Tier: api.Developer,
				ExpiresAt: ends,
			}}
		}
		peppers := [][]byte{[]byte("the pepper that tests hash with.")}
		later := f.db.Now().Add(24 * time.Hour)
		report, err := f.ImportKeys(ctx, "ada", []keys.Older{line(1, "a", later), line(2, "b", f.db.Now())}, peppers)
		require.NoError(t, err)
		require.False(t, report.Applied)
		require.Equal(t, 2, report.Rejected[0].Line)
		require.Empty(t, f.db.Audit(t))

		report = storetest.Must(f.ImportKeys(ctx, "ada", []keys.Older{line(1, "a", later), line(2, "b", later)}, peppers))(t)
		require.Equal(t, 2, report.Created)
		rotated := [][]byte{[]byte("the pepper that comes after it.."), peppers[0]}
		report = storetest.Must(f.ImportKeys(ctx, "ada", []keys.Older{line(1, "a", later)}, rotated))(t)
		require.Equal(t, 1, report.Unchanged, "known under the older pepper")
		page, more, err := f.Keys(ctx, keys.Filter{}, account.Page{Limit: 1})
		require.NoError(t, err)
		require.True(t, more)
		rest, more, err := f.Keys(ctx, keys.Filter{}, account.Page{After: page[0].ID, Limit: 1})
		require.NoError(t, err)
		require.False(t, more)
		require.NotEqual(t, page[0].Account, rest[0].Account, "an account for each")
		for useCase, want := range map[string]int{page[0].UseCase: 1, page[0].UseCase + " ": 0} {
			found, _, err := f.Keys(ctx, keys.Filter{Account: page[0].Account, UseCase: useCase}, account.Page{})
			require.NoError(t, err)
			require.Len(t, found, want)
		}
	})
}

// A successor gets a full life of its own: 365 days, or the life that an operator set. The old key
// keeps working for 24 hours, but not past its own expiry.
func TestSuccessorHasAFullLifeOfItsOwn(t *testing.T) {
	const day = 24 * time.Hour
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		limited, _ := f.issue(api.KeyOrder{Account: id}, 30*day)
		full, _ := f.issue(api.KeyOrder{Account: id}, keys.MaxLife)
		lives := map[string]time.Duration{limited.ID: 30 * day, full.ID: keys.MaxLife}
		f.db.TakeTouched(t)
		for round := range 3 { // the life stays with every successor
			f.db.Advance(29*day + 23*time.Hour) // one hour before the shorter ends
			next := map[string]time.Duration{}
			for key, life := range lives {
				before := storetest.Must(f.ResolveOwn(ctx, id, key))(t)
				successor, old, err := f.Rotate(ctx, id, key, stored(100+10*round+len(next)))
				require.NoError(t, err)
				require.Equal(t, f.db.Now().Add(life), successor.ExpiresAt)
				require.Equal(t, f.db.Now().Add(min(day, before.ExpiresAt.Sub(f.db.Now()))), old.ExpiresAt)
				next[successor.ID] = life
			}
			lives = next
		}
		require.Equal(t, []string{id, id, id, id, id, id}, f.db.TakeTouched(t))
	})
}

// Otherwise an account could have any number of keys, all but one in their grace periods.
func TestSuccessorIsRotatedOnceItsPredecessorHasEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		first, _ := f.issue(api.KeyOrder{Account: id}, keys.MaxLife)
		second := storetest.Must(f.rotate(id, first.ID))(t)
		require.ErrorContains(t, storetest.Err(f.rotate(id, second.ID)), "Revoke the old one first")
		storetest.Must(f.RevokeOwn(ctx, id, first.ID))(t)
		third := storetest.Must(f.rotate(id, second.ID))(t)
		f.db.Advance(keys.Grace - time.Microsecond)
		require.ErrorContains(t, storetest.Err(f.rotate(id, third.ID)), "Revoke the old one first")
		f.db.Advance(time.Microsecond)
		storetest.Must(f.rotate(id, third.ID))(t)
	})
}

func TestUnconnectableKeysAreRejected(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, ada, bob := t.Context(), f.person("ada@example.org"), f.person("bob@example.org")
		_, own := f.issue(api.KeyOrder{Account: bob}, keys.MaxLife)
		revoked, revokedDigest := f.issue(api.KeyOrder{}, keys.MaxLife)
		storetest.Must(f.Revoke(ctx, "ada", revoked.ID, false))(t)
		_, expired := f.issue(api.KeyOrder{}, time.Microsecond)
		f.db.Advance(time.Microsecond)
		suspended, suspendedDigest := f.issue(api.KeyOrder{}, keys.MaxLife)
		require.NoError(t, f.db.Exec("UPDATE accounts SET suspended_at = 1 WHERE id = ?", suspended.Account).Error)
		crowd, crowdDigest := f.issue(api.KeyOrder{}, keys.MaxLife)
		for range keys.MaxActive - 1 {
			f.issue(api.KeyOrder{Account: crowd.Account}, keys.MaxLife)
		}
		f.issue(api.KeyOrder{Account: ada}, keys.MaxLife)
		f.db.TakeTouched(t)
		for digest, want := range map[string]string{
			"unknown": "no key", own: "another person's account", revokedDigest: "it is revoked", expired: "it is expired",
			suspendedDigest: "suspended", crowdDigest: "comes with 5 active keys",
		} {
			require.ErrorContains(t, storetest.Err(f.Connect(ctx, ada, []string{digest})), want)
		}
		require.Empty(t, f.db.TakeTouched(t))
	})
}

func TestTwoAccountsConnectTheSameKeyAndOneWins(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		key, first := f.issue(api.KeyOrder{}, keys.MaxLife)
		_, sibling := f.issue(api.KeyOrder{Account: key.Account}, keys.MaxLife)
		people := []string{
			f.person("a@example.org"), f.person("b@example.org"), f.person("c@example.org"), f.person("d@example.org"),
		}
		errs := storetest.Together(2*len(people), func(i int) error {
			return storetest.Err(f.Connect(t.Context(), people[i/2], []string{[]string{first, sibling}[i%2]}))
		})
		require.Equal(t, 1, succeeded(t, errs, "already belongs"))
		winner := storetest.Must(f.Resolve(t.Context(), []string{first}))(t)
		require.Equal(t, winner.Account, storetest.Must(f.Resolve(t.Context(), []string{sibling}))(t).Account)
		require.Contains(t, people, winner.Account)
	})
}

func TestKeyDigestsAreThoseOfAllKeysInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		a, first := f.issue(api.KeyOrder{}, keys.MaxLife)
		_, second := f.issue(api.KeyOrder{}, keys.MaxLife)
		first, second = first[:api.KeyDigestLength], second[:api.KeyDigestLength]
		require.NoError(t, f.db.Exec("UPDATE api_keys SET last_used_at = 1").Error)
		storetest.Must(f.Revoke(ctx, "ada", a.ID, false))(t)
		page := storetest.Must(f.KeyDigests(ctx, api.KeyPosition{}, 2))(t)
		require.Equal(t, api.KeyDigests{
			Digests: []string{first, second}, Last: api.KeyPosition{Sequence: 2, Digest: second},
		}, page, "revoked keys are known keys")
		next := storetest.Must(f.KeyDigests(ctx, page.Last, 2))(t)
		require.Equal(t, api.KeyDigests{After: page.Last, Digests: []string{}, Last: page.Last}, next)

		for name, elsewhere := range map[string]api.KeyPosition{
			"another key at this sequence": {Sequence: 2, Digest: "0123456789abcdef"},
			"a sequence beyond the last":   {Sequence: 99, Digest: second},
		} {
			all := storetest.Must(f.KeyDigests(ctx, elsewhere, 2))(t)
			require.Zero(t, all.After, name)
			require.Equal(t, []string{first, second}, all.Digests, name)
		}
		one := storetest.Must(f.KeyDigests(ctx, api.KeyPosition{}, 1))(t)
		require.True(t, one.More)
		require.Equal(t, []string{first}, one.Digests)
	})
}

func TestKeyDigestsOmitKeysThatEndedLongAgoOrUnused(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		listed := func(after api.KeyPosition) api.KeyDigests {
			return storetest.Must(f.KeyDigests(ctx, after, 9))(t)
		}
		shortened := func(digest string) string { return digest[:api.KeyDigestLength] }
		used, usedDigest := f.issue(api.KeyOrder{}, keys.MaxLife)
		require.NoError(t, f.db.Exec("UPDATE api_keys SET last_used_at = 1").Error)
		_, short := f.issue(api.KeyOrder{}, time.Hour)
		_, current := f.issue(api.KeyOrder{}, keys.MaxLife)
		unused, unusedDigest := f.issue(api.KeyOrder{}, keys.MaxLife)
		before := listed(api.KeyPosition{})
		for _, id := range []string{used.ID, unused.ID} {
			storetest.Must(f.Revoke(ctx, "ada", id, false))(t)
		}
		ended := []string{shortened(usedDigest), shortened(short), shortened(current)}
		for _, c := range []struct {
			later time.Duration
			want  []string
		}{
			{24*time.Hour - 1, append(slices.Clone(ended), shortened(unusedDigest))}, {1, ended},
			{89*24*time.Hour - 1, ended}, {time.Hour + 1, ended[2:]},
		} {
			f.db.Advance(c.later)
			require.Equal(t, c.want, listed(api.KeyPosition{}).Digests)
			require.Equal(t, before.Last, listed(before.Last).After, "a position at an omitted key stays known")
		}
	})
}

// A follower that continues from its last position misses no key, however transactions overlap.
func TestKeyDigestsLeaveNoGapWhileKeysAreIssued(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx := t.Context()
		const issued = 60
		done := make(chan []error)
		go func() {
			done <- storetest.Together(issued, func(i int) error {
				return storetest.Err(f.Issue(ctx, "ada", api.KeyOrder{UseCase: "x", Tier: api.Free}, keys.MaxLife, stored(i)))
			})
		}()
		var followed []string
		at := api.KeyPosition{}
		for issuing := true; issuing; {
			select {
			case errs := <-done:
				require.Equal(t, issued, succeeded(t, errs, ""))
				issuing = false
			default:
			}
			page := storetest.Must(f.KeyDigests(ctx, at, issued))(t)
			followed, at = append(followed, page.Digests...), page.Last
		}
		require.Len(t, followed, issued)
	})
}
