package keyusage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/keyusage"
	"opportunity.internal/services/authquota/internal/testkit"
)

func digest(n int) string { return fmt.Sprintf("%064x", n) }

// issue issues the n-th key to an account; to a new one if accountID is empty.
func issue(t require.TestingT, db testkit.DB, n int, accountID string) keys.Key {
	order := api.KeyOrder{UseCase: "x", Account: accountID}
	if accountID == "" {
		order.Tier = api.Free
	}
	return storetest.Must(keys.NewStore(db.DB).Issue(context.Background(), "ada", order, keys.MaxLife,
		keys.Record{Digest: digest(n), Prefix: "oda_live_", LastFour: "abcd"}))(t)
}

func batch(id string, key keys.Key, day string, calls int, at time.Time) keyusage.Batch {
	return keyusage.Batch{
		ID: id, Sums: []keyusage.KeySum{{Key: key.ID, Day: day, Outcome: api.CallServed, Calls: calls}},
		LastUsed: map[string]time.Time{key.ID: at},
	}
}

func TestUsageBatchIsAddedOnce(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, day := keyusage.NewStore(db.DB), t.Context(), counter.DayOf(db.Now())
		key := issue(t, db, 1, "")
		for _, id := range []string{"first", "first", "second"} {
			unknown := storetest.Must(s.Count(ctx, batch(id, key, day, 3, db.Now())))(t)
			require.Zero(t, unknown)
		}
		require.Equal(t, 1, storetest.Must(s.Count(ctx, batch("third", keys.Key{ID: keys.NewID()}, day, 3, db.Now())))(t))
		storetest.Must(s.Count(ctx, batch("late", key, day, 1, db.Now().Add(-time.Hour))))(t)

		require.Equal(t, 7, storetest.Must(s.SentOn(ctx, key.Account, db.Now()))(t)[key.ID][keyusage.Served])
		used := storetest.Must(keys.NewStore(db.DB).Resolve(ctx, []string{digest(1)}))(t)
		require.Equal(t, db.Now(), *used.LastUsedAt, "a late batch does not set it back")
	})
}

func TestLedgerKeepsTheGreatestCountsAndIsReadInPages(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, day := keyusage.NewStore(db.DB), t.Context(), counter.DayOf(db.Now())
		read := func() (pages [][]any) {
			require.NoError(t, s.EachPage(ctx, day, 2, func(page []any) error {
				pages = append(pages, slices.Clone(page))
				return nil
			}))
			return pages
		}
		require.Empty(t, read())
		for _, calls := range []int{5, 9, 7} {
			require.NoError(t, s.SaveDay(ctx, day, map[string]int{"acc_a": calls, "acc_b": 2, "acc_c": 3}))
		}
		require.NoError(t, s.SaveDay(ctx, "2026-11-19", map[string]int{"acc_d": 4}))
		pages := read()
		require.ElementsMatch(t, []any{"acc_a", 9, "acc_b", 2, "acc_c", 3}, slices.Concat(pages...))
		require.Equal(t, []int{4, 2}, []int{len(pages[0]), len(pages[1])})
		failed := errors.New("no Redis")
		require.ErrorIs(t, s.EachPage(ctx, day, 2, func([]any) error { return failed }), failed)
	})
}

// requireAgreement fails the test unless the usage by key, summed by account, is the usage by
// account.
func requireAgreement(t *testing.T, db testkit.DB) {
	t.Helper()
	type sum struct {
		AccountID, Day, Outcome string
		Calls                   int
	}
	const key = "account_id, day, outcome"
	var byKey, byAccount []sum
	require.NoError(t, db.Table("usage_keys").Select(key+", SUM(calls) AS calls").Group(key).Order(key).Scan(&byKey).Error)
	require.NoError(t, db.Table("usage_outcomes").Select(key+", calls").Order(key).Scan(&byAccount).Error)
	require.NotEmpty(t, byKey)
	require.Equal(t, byKey, byAccount)
}

// The two accounts share a day and an outcome, and each has usage that the other lacks.
func TestUsageByKeyAndByAccountAgreeAfterAMerge(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, keyStore, ctx := keyusage.NewStore(db.DB), keys.NewStore(db.DB), t.Context()
		person, _ := db.Person(t, "ann@example.org")
		older := issue(t, db, 1, "")
		own := issue(t, db, 2, person)
		today, yesterday := counter.DayOf(db.Now()), counter.DayOf(db.Now().Add(-24*time.Hour))
		send := func(id string) {
			t.Helper()
			_, err := s.Count(ctx, keyusage.Batch{ID: id, LastUsed: map[string]time.Time{older.ID: db.Now(), own.ID: db.Now()},
				Sums: []keyusage.KeySum{
					{Key: older.ID, Day: yesterday, Outcome: api.CallServed, Calls: 2},
					{Key: older.ID, Day: today, Outcome: api.CallServed, Calls: 3},
					{Key: own.ID, Day: today, Outcome: api.CallServed, Calls: 5},
					{Key: own.ID, Day: today, Outcome: api.CallNotFound, Calls: 7},
				}})
			require.NoError(t, err)
			requireAgreement(t, db)
		}
		send("before")
		storetest.Must(keyStore.Connect(ctx, person, []string{digest(1)}))(t)
		requireAgreement(t, db)
		send("after")
		counts := storetest.Must(s.ByDay(ctx, person, keyusage.Range{From: yesterday, To: today}))(t)
		sum := 0
		for _, c := range counts {
			sum += c.Calls
		}
		require.Equal(t, 2*(2+3+5+7), sum, "nothing remains with the merged account")
	})
}

// Usage by key and by account expire together, so that they agree.
func TestUsageIsDeletedAfterRetention(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx := keyusage.NewStore(db.DB), t.Context()
		key := issue(t, db, 1, "")
		storetest.Must(s.Count(ctx, batch("first", key, counter.DayOf(db.Now()), 3, db.Now())))(t)
		rows := func(table string) (n int64) {
			t.Helper()
			require.NoError(t, db.Table(table).Count(&n).Error)
			return n
		}
		db.Advance((keyusage.RetentionDays - 1) * 24 * time.Hour)
		require.NoError(t, s.DeleteExpired(ctx))
		require.Equal(t, []int64{1, 1}, []int64{rows("usage_keys"), rows("usage_outcomes")})
		db.Advance(24 * time.Hour)
		require.NoError(t, s.DeleteExpired(ctx))
		require.Equal(t, []int64{0, 0, 0}, []int64{rows("usage_keys"), rows("usage_outcomes"), rows("usage_batches")})
	})
}

// The status page shows the requests that were not rejected, those of all accounts together.
func TestServedByDay(t *testing.T) {
	testkit.OnBoth(t, func(t *testing.T, db testkit.DB) {
		s, ctx, key, other := keyusage.NewStore(db.DB), t.Context(), issue(t, db, 1, ""), issue(t, db, 2, "")
		_, err := s.Count(ctx, keyusage.Batch{ID: "first", Sums: []keyusage.KeySum{
			{Key: key.ID, Day: "2026-11-19", Outcome: api.CallServed, Calls: 7},
			{Key: other.ID, Day: "2026-11-19", Outcome: api.CallNotFound, Calls: 2},
			{Key: other.ID, Day: "2026-11-19", Outcome: api.CallFailed, Calls: 1},
			{Key: key.ID, Day: "2026-11-20", Outcome: api.CallMinuteLimitReached, Calls: 5},
			{Key: key.ID, Day: "2026-11-18", Outcome: api.CallServed, Calls: 9},
		}, LastUsed: map[string]time.Time{key.ID: db.Now(), other.ID: db.Now()}})
		require.NoError(t, err)
		days := storetest.Must(s.Served(ctx, keyusage.Range{From: "2026-11-19", To: "2026-11-20"}))(t)
		require.Equal(t, []api.DayServed{{Day: "2026-11-19", Calls: 10, Failed: 1}}, days)
	})
}

const (
	keyA = "key_0199a7a0000070008000000000000001"
	keyB = "key_0199a7a0000070008000000000000002"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestABatchIsAddedUp(t *testing.T) {
	id := uuid.Must(uuid.NewV7()).String()
	got, err := keyusage.Check(api.UsageBatch{ID: id, Counts: []api.UsageCount{
		{Day: "2026-11-20", Key: keyB, Outcome: api.CallServed, Calls: 2, LastAt: noon.Add(-time.Minute)},
		{Day: "2026-11-20", Key: keyA, Outcome: api.CallServed, Calls: 1, LastAt: noon.Add(time.Hour)},
		{Day: "2026-11-20", Key: keyB, Outcome: api.CallServed, Calls: 3, LastAt: noon.Add(-time.Hour)},
		{Day: "2026-11-19", Key: keyB, Outcome: api.CallFailed, Calls: 4, LastAt: noon.Add(-13 * time.Hour)},
	}}, noon)
	require.NoError(t, err)
	require.Equal(t, keyusage.Batch{ID: id, Sums: []keyusage.KeySum{
		{Key: keyA, Day: "2026-11-20", Outcome: api.CallServed, Calls: 1},
		{Key: keyB, Day: "2026-11-19", Outcome: api.CallFailed, Calls: 4},
		{Key: keyB, Day: "2026-11-20", Outcome: api.CallServed, Calls: 5},
	}, LastUsed: map[string]time.Time{keyA: noon, keyB: noon.Add(-time.Minute)}}, got)
}

func TestInvalidBatchesAreRejected(t *testing.T) {
	id := uuid.Must(uuid.NewV7()).String()
	good := api.UsageCount{Day: "2026-11-20", Key: keyA, Outcome: api.CallServed, Calls: 1, LastAt: noon}
	with := func(change func(*api.UsageCount)) api.UsageBatch {
		bad := good
		change(&bad)
		return api.UsageBatch{ID: id, Counts: []api.UsageCount{good, bad}}
	}
	for name, c := range map[string]struct {
		batch api.UsageBatch
		words string
	}{
		"no id":             {api.UsageBatch{Counts: []api.UsageCount{good}}, "Parameter id"},
		"an id of old":      {api.UsageBatch{ID: uuid.NewString()}, "version 7"},
		"an id in capitals": {api.UsageBatch{ID: "0199A7A0-0000-7000-8000-00000000000A"}, "lower case"},
		"too many":          {api.UsageBatch{ID: id, Counts: make([]api.UsageCount, api.MaxUsageCounts+1)}, "at most 5000"},
		"no key":            {with(func(t *api.UsageCount) { t.Key = "acc_1" }), "counts[1].key"},
		"no such outcome":   {with(func(t *api.UsageCount) { t.Outcome = "lost" }), "counts[1].outcome"},
		"no day":            {with(func(t *api.UsageCount) { t.Day = "2026-11-31" }), "counts[1].day"},
		"a day to come":     {with(func(t *api.UsageCount) { t.Day = "2026-11-22" }), "counts[1].day"},
		"a forgotten day": {with(func(t *api.UsageCount) { t.Day = keyusage.Last(noon, keyusage.RetentionDays+1).From }),
			"counts[1].day"},
		"no calls":         {with(func(t *api.UsageCount) { t.Calls = 0 }), "counts[1].calls"},
		"fewer than none":  {with(func(t *api.UsageCount) { t.Calls = -1 }), "counts[1].calls"},
		"beyond all calls": {with(func(t *api.UsageCount) { t.Calls = 2_000_000_000 }), "counts[1].calls"},
		"no time":          {with(func(t *api.UsageCount) { t.LastAt = time.Time{} }), "counts[1].lastAt"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, storetest.Err(keyusage.Check(c.batch, noon)), c.words)
		})
	}
	for _, day := range []string{"2026-11-21", keyusage.Last(noon, keyusage.RetentionDays).From} {
		require.NoError(t, storetest.Err(keyusage.Check(with(func(t *api.UsageCount) { t.Day = day }), noon)), day)
	}
}
