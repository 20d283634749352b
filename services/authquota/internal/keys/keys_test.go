package keys_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

func TestStatusOfAKey(t *testing.T) {
	end := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	key := keys.Key{ExpiresAt: end}
	require.Equal(t, keys.Active, key.StatusAt(end.Add(-1)))
	require.Equal(t, keys.Expired, key.StatusAt(end), "at the instant itself it has expired")
	key.RevokedAt = &end
	require.Equal(t, keys.Revoked, key.StatusAt(end.Add(-1)))
	require.Equal(t, keys.Revoked, key.StatusAt(end.Add(time.Hour)))
}

func TestPrincipalWhilePaidPeriodsEnd(t *testing.T) {
	end := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tiers := account.TierTable{api.Free: {PerDay: 1}, api.Developer: {PerDay: 2}, api.Commercial: {PerDay: 3}}
	until := func(of api.Tier, d time.Duration) api.Entitlement {
		at := end.Add(d)
		return api.Entitlement{Tier: of, PaidUntil: &at}
	}
	for name, c := range map[string]struct {
		paid []api.Entitlement
		at   time.Duration // after end
		tier api.Tier
		next *api.PrincipalChange
	}{
		"never paid": {nil, 0, api.Free, nil},
		"before the end": {[]api.Entitlement{until(api.Commercial, 0)}, -1, api.Commercial, &api.PrincipalChange{
			At: end, Tier: api.Free, Limits: tiers[api.Free],
		}},
		"a minute after the end": {
			[]api.Entitlement{until(api.Commercial, 0)}, time.Minute - 1, api.Commercial, &api.PrincipalChange{
				At: end, Tier: api.Free, Limits: tiers[api.Free],
			},
		},
		"later": {[]api.Entitlement{until(api.Commercial, 0)}, time.Minute, api.Free, nil},
		"another change follows": {
			[]api.Entitlement{until(api.Commercial, 0), until(api.Developer, time.Hour)}, 1, api.Developer,
			&api.PrincipalChange{At: end.Add(time.Hour), Tier: api.Free, Limits: tiers[api.Free]},
		},
	} {
		key := keys.Resolved{
			Key: keys.Key{Standing: account.Standing{Granted: api.Free, Paid: c.paid}}, Epoch: accountdb.Epoch{Number: 7},
		}
		got, err := key.Principal(end.Add(c.at), tiers)
		require.NoError(t, err, name)
		require.Equal(t, api.Principal{Tier: c.tier, Limits: tiers[c.tier], Epoch: 7, Next: c.next}, got, name)
	}
	require.ErrorContains(t, storetest.Err(keys.Resolved{}.Principal(end, tiers)), "unknown tier")
}

func TestOrders(t *testing.T) {
	own, longest := account.NewID(), strings.Repeat("é", 500)
	for _, c := range []struct {
		order   api.KeyOrder
		useCase string
		tier    api.Tier
		life    time.Duration
	}{
		{api.KeyOrder{UseCase: " x "}, "x", api.Free, keys.MaxLife},
		{api.KeyOrder{UseCase: "x", Account: own}, "x", "", keys.MaxLife}, // its tier is that of the account
		{api.KeyOrder{UseCase: "x", Tier: api.Commercial}, "x", api.Commercial, keys.MaxLife},
		{api.KeyOrder{UseCase: "x", ExpiresIn: "90m"}, "x", api.Free, 90 * time.Minute},
		{api.KeyOrder{UseCase: "x", ExpiresIn: "8760h"}, "x", api.Free, keys.MaxLife},
		{api.KeyOrder{UseCase: "x", ExpiresIn: "1d12h"}, "x", api.Free, 36 * time.Hour},
		{api.KeyOrder{UseCase: "x", ExpiresIn: "1us"}, "x", api.Free, time.Microsecond},
		{api.KeyOrder{UseCase: longest}, longest, api.Free, keys.MaxLife},
	} {
		got, life, err := keys.CheckOrder(c.order)
		require.NoError(t, err)
		c.order.UseCase, c.order.Tier = c.useCase, c.tier
		require.Equal(t, c.order, got)
		require.Equal(t, c.life, life)
	}
	for _, life := range []string{"0s", "-1h", "1ns", "8760h1us", "30x"} {
		_, _, err := keys.CheckOrder(api.KeyOrder{UseCase: "x", ExpiresIn: life})
		require.ErrorContains(t, err, "at most 365d", life)
	}
	_, _, err := keys.CheckOrder(api.KeyOrder{UseCase: "x", Tier: "gold"})
	require.ErrorContains(t, err, "tier")
	_, _, err = keys.CheckOrder(api.KeyOrder{UseCase: "my key is " + apikey.Generate(apikey.Live).Reveal()})
	require.Equal(t, problem.InvalidParameter, problem.Of(err).Code)
}

func TestLinesOfAnImport(t *testing.T) {
	sum, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	const key = `"prefix":"jb-","lastFour":"9x2Q","useCase":"x","tier":"free","expiresAt":"2027-06-01T00:00:00Z"}`
	lines, report, err := keys.ReadOlder(strings.NewReader(strings.Join([]string{
		`{"sha256":"` + sum + `",` + key, `{"sha256":"` + sum + `",` + key,
		`{"sha256":"jb-4712","prefix":"oda_live_","lastFour":"12345","tier":"gold","useCase":" ","name":"` +
			strings.Repeat("x", 61) + `","expiresAt":"2027-06-01T00:00:00Z"}`,
		`{"sha256":`, `{"key":"jb-4712","sha256":"` + other + `",` + key,
		`{"sha256":"` + other + `",` + strings.Replace(key, `"2027-06-01T00:00:00Z"`, "null", 1),
	}, "\n")))
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.Len(t, report.Rejected, 5)
	for i, problems := range [][]string{{"sha256: is on line 1 already"}, {
		"sha256: must be the SHA-256 of the key in hexadecimal, 64 characters",
		"prefix: must not be that of the keys that are issued here", "lastFour: must be the last four characters of the key",
		"name: must have at most 60 characters", "useCase: must not be empty",
		"tier: must be one of free, developer, commercial",
	}} {
		require.Equal(t, api.RejectedLine{Line: i + 2, Problems: apitest.Problems(problems...)}, report.Rejected[i])
	}
}

func TestNoticesBeforeTheEndOfAKey(t *testing.T) {
	end := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	key := keys.Key{CreatedAt: end.Add(-365 * day), ExpiresAt: end}
	for before, want := range map[time.Duration]int{
		300 * day: 0, 30*day + 1: 0, 30 * day: 30, 8 * day: 30, 7*day + 1: 30, 7 * day: 7, 2 * day: 7, day + 1: 7, day: 1,
		1: 1, 0: 0, -day: 0,
	} {
		require.Equal(t, want, key.Notice(end.Add(-before)), "%s before the end", before)
	}
	now := end.Add(-5 * day)
	revoked, replaced := key, key
	revoked.RevokedAt, replaced.ReplacedAt = &now, &now
	require.Zero(t, revoked.Notice(now))
	require.Zero(t, replaced.Notice(now))
	short := keys.Key{CreatedAt: end.Add(-6 * day), ExpiresAt: end}
	require.Zero(t, short.Notice(now), "it was less than seven days from the beginning")
	require.Equal(t, 1, short.Notice(end.Add(-day)))
}

func TestNoticesAreSentOnceBeforeKeysExpire(t *testing.T) {
	const day = 24 * time.Hour
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		key, _ := f.issue(api.KeyOrder{Account: id}, keys.MaxLife)
		f.issue(api.KeyOrder{Account: id}, 5*day)
		revoked, _ := f.issue(api.KeyOrder{Account: id}, keys.MaxLife)
		storetest.Must(f.RevokeOwn(ctx, id, revoked.ID))(t)
		replaced, _ := f.issue(api.KeyOrder{Account: id}, 5*day)
		storetest.Must(f.rotate(id, replaced.ID))(t)
		f.issue(api.KeyOrder{}, keys.MaxLife) // an account without a person
		f.db.TakeMails(t)
		due := func(within ...string) {
			t.Helper()
			var want []string
			for _, days := range within {
				want = append(want, "ada@example.org: Your key Unnamed key expires within "+days)
			}
			require.NoError(t, f.Remind(ctx))
			require.NoError(t, f.Remind(ctx), "again")
			require.Equal(t, want, f.db.TakeSubjects(t))
		}
		due()
		f.db.Advance(4 * day) // the short ones never had seven days; the successor has one left
		due("a day", "a day") // not of the replaced one
		f.db.Advance(key.ExpiresAt.Sub(f.db.Now()) - 30*day - time.Microsecond)
		due()
		f.db.Advance(time.Microsecond)
		due("30 days")
		f.db.Advance(29*day + time.Hour) // no process ran when seven days were left: only the latest notice is sent
		due("a day")
		f.db.Advance(day)
		due() // it has expired
	})
}

func TestSeveralProcessesSendOneNotice(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		const people = 10
		for i := range people {
			f.issue(api.KeyOrder{Account: f.person(fmt.Sprintf("person%d@example.org", i))}, 800*time.Hour)
		}
		f.db.Advance(700 * time.Hour)
		require.Equal(t, 3, succeeded(t, storetest.Together(3, func(int) error { return f.Remind(t.Context()) }), ""))
		require.Len(t, f.db.TakeMails(t), people)
	})
}

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
		people := 0
		rapid.Check(t, func(rt *rapid.T) {
			people++
			l := limits{f, f.person(fmt.Sprintf("person%d@example.org", people))}
			var older []string // digests of keys of accounts that were not connected, some with several keys
			for range 2 {
				key, digest := f.issue(api.KeyOrder{}, 72*time.Hour)
				for range rapid.IntRange(0, 4).Draw(rt, "siblings") {
					f.issue(api.KeyOrder{Account: key.Account}, keys.MaxLife)
				}
				older = append(older, digest)
			}
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				if rapid.IntRange(0, 5).Draw(rt, "wait") == 0 {
					f.db.Advance(time.Duration(rapid.SampledFrom([]int{1, 23, 25, 73, 24 * 300}).Draw(rt, "hours")) * time.Hour)
				}
				key, request := keys.NewID(), accountdb.NewID("req_")
				if keys := l.keys(rt); len(keys) > 0 {
					key = rapid.SampledFrom(keys).Draw(rt, "key").ID
				}
				if requests := l.requests(rt); len(requests) > 0 {
					request = rapid.SampledFrom(requests).Draw(rt, "request").ID
				}
				actions := rapid.SliceOfN(rapid.SampledFrom([]string{
					"request", "request", "approve", "collect", "collect", "decline", "withdraw", "rotate", "rotate", "revoke",
					"connect", "issue",
				}), 1, 4).Draw(rt, "at once")
				presented := rapid.SampledFrom(older).Draw(rt, "presented")
				storetest.Together(len(actions), func(i int) error { return l.act(actions[i], key, request, presented) })
				l.hold(rt)
			}
		})
	})
}

// limits are the keys of one account.
type limits struct {
	fixture

	id string
}

// act performs one action on the keys of the account, allowed or not.
func (l limits) act(action, key, request, presented string) (err error) {
	ctx := l.t.Context()
	switch action {
	case "request":
		_, err = l.RequestKey(ctx, l.id, keys.RequestedKey{Name: "Mine", UseCase: "testing"}, accepted, false)
	case "approve":
		_, err = l.Decide(ctx, "ada", request, keys.Decide{State: keys.Approved})
	case "decline":
		_, err = l.Decide(ctx, "ada", request, keys.Decide{State: keys.Declined, Reason: "x"})
	case "collect":
		_, err = l.Collect(ctx, l.id, request, accepted, stored(int(l.n.Add(1))))
	case "withdraw":
		err = l.Withdraw(ctx, l.id, request)
	case "rotate":
		_, err = l.rotate(l.id, key)
	case "revoke":
		_, err = l.RevokeOwn(ctx, l.id, key)
	case "connect":
		_, err = l.Connect(ctx, l.id, []string{presented})
	case "issue":
		_, err = l.Issue(ctx, "ada", api.KeyOrder{Account: l.id, UseCase: "x"}, keys.MaxLife, stored(int(l.n.Add(1))))
	}
	return err
}

func (l limits) keys(t require.TestingT) []keys.Key {
	return storetest.Must(l.OwnKeys(l.t.Context(), l.id))(t)
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
	err := l.db.Raw("SELECT count(DISTINCT key_id) FROM key_requests WHERE account_id = ? AND state = 'collected'",
		l.id).Scan(&made).Error
	require.NoError(t, err)
	require.Equal(t, collected, made)
}

var testKey = keys.RequestedKey{Name: "First", UseCase: "testing", Test: true}

// An account gets one test key without an operator, however many requests it sends at the same
// time.
func TestOneTestKeyIsApprovedAutomatically(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		offered := func() keys.Offer {
			t.Helper()
			return storetest.Must(f.Offer(ctx, id))(t)
		}
		errs := storetest.Together(6, func(int) error {
			return storetest.Err(f.RequestKey(ctx, id, testKey, accepted, false))
		})
		require.Equal(t, 1, succeeded(t, errs, "cannot get another test key"))
		require.Equal(t, 1, slices.Index(f.db.Actions(t, keys.AutoApproval), "key.approve")+1)
		for n := range 2 { // it can be withdrawn or revoked, and requested again
			open := storetest.Must(f.OwnRequests(ctx, id))(t)
			require.Equal(t, []any{keys.Approved, keys.AutoApproval, true},
				[]any{open[0].State, open[0].DecidedBy, open[0].Test})
			if n == 0 {
				require.NoError(t, f.Withdraw(ctx, id, open[0].ID))
			} else {
				record := stored(100)
				record.Prefix = apikey.Test
				key := storetest.Must(f.Collect(ctx, id, open[0].ID, accepted, record))(t)
				require.Equal(t, keys.Offer{}, offered())
				storetest.Must(f.RevokeOwn(ctx, id, key.ID))(t)
			}
			require.Equal(t, keys.Offer{Test: true}, offered())
			storetest.Must(f.RequestKey(ctx, id, testKey, accepted, false))(t)
		}
		live := storetest.Must(f.RequestKey(ctx, id, keys.RequestedKey{Name: "x", UseCase: "x"}, accepted, false))(t)
		require.Equal(t, keys.Pending, live.State)
		require.NoError(t, f.db.Exec("UPDATE accounts SET tier = ?", api.Developer).Error)
		_, err := f.RequestKey(ctx, id, testKey, accepted, true)
		require.ErrorContains(t, err, "cannot get another test key", "on another tier")
	})
}

// An account that pays gets its first live key without an operator, and none beside it.
func TestFirstLiveKeyOfAPayingAccountIsApprovedAutomatically(t *testing.T) {
	onBoth(t, func(t *testing.T, f fixture) {
		ctx, id := t.Context(), f.person("ada@example.org")
		until := f.db.Now().Add(time.Hour)
		require.NoError(t, f.db.Create(&account.EntitlementRow{AccountID: id, HolderID: id, Entitlement: account.Entitlement{
			Tier: api.Commercial, PaidUntil: &until, Version: 1,
		}}).Error)
		errs := storetest.Together(3, func(int) error {
			return storetest.Err(f.RequestKey(ctx, id, keys.RequestedKey{Name: "Site", UseCase: "testing"}, accepted, false))
		})
		require.Equal(t, 3, succeeded(t, errs, ""))
		open := storetest.Must(f.OwnRequests(ctx, id))(t)
		approved := slices.DeleteFunc(open, func(r keys.Request) bool { return r.State != keys.Approved })
		require.Len(t, approved, 1)
		require.Equal(t, keys.AutoApproval, approved[0].DecidedBy)
		key := storetest.Must(f.Collect(ctx, id, approved[0].ID, accepted, stored(102)))(t)
		storetest.Must(f.RevokeOwn(ctx, id, key.ID))(t)
		for _, live := range []bool{true, false} { // while it pays, it is never without a key
			require.Equal(t, live, storetest.Must(f.Offer(ctx, id))(t).Live)
			f.db.Advance(time.Hour)
		}
	})
}
