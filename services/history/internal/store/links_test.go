package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history/internal/linkcheck"
	"opportunity.internal/services/history/migrations"
)

func TestALinkIsClaimedOnceForADayAndRecordedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s kept) {
		s.publish(t, "a", "b")
		ctx, due := t.Context(), recorded
		claim := func(run string, due time.Time) bool {
			t.Helper()
			ours, err := s.Claim(ctx, run, "a", due, recorded)
			require.NoError(t, err)
			return ours
		}
		ours, err := s.Acquire(ctx, "one", recorded, recorded.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ours)
		ours, err = s.Acquire(ctx, "two", recorded.Add(59*time.Second), recorded.Add(time.Hour))
		require.NoError(t, err)
		require.False(t, ours, "one at a time")
		require.False(t, claim("two", due), "without the lease there is nothing to claim")
		require.True(t, claim("one", due))
		require.False(t, claim("one", due), "for good")
		require.False(t, claim("one", due.Add(-24*time.Hour)))

		ours, err = s.Acquire(ctx, "two", recorded.Add(time.Minute), recorded.Add(time.Hour))
		require.NoError(t, err)
		require.True(t, ours, "a run that shows no sign of life loses the lease")
		ours, err = s.Renew(ctx, "one", recorded.Add(2*time.Hour))
		require.NoError(t, err)
		require.False(t, ours)
		require.NoError(t, s.End(ctx, "one", recorded, time.Second, true), "which is not its own to give back")
		ours, err = s.Renew(ctx, "two", recorded.Add(2*time.Hour))
		require.NoError(t, err)
		require.True(t, ours)
		require.False(t, claim("two", due), "what a dead run claimed is not asked again")

		e := link("a", 1, api.OutcomeReachable)
		require.Error(t, s.Record(ctx, "two", recorded, e), "a claim of another")
		require.NoError(t, s.Record(ctx, "one", recorded, e), "which wakes up and has asked")
		require.Error(t, s.Record(ctx, "one", recorded, link("a", 2, api.OutcomeClosed)), "one event for one claim")
		require.Len(t, s.events(t, "a"), 1)

		require.True(t, claim("two", due.Add(24*time.Hour)), "the next day")
		require.NoError(t, s.Release(ctx, "two", "a"))
		require.Error(t, s.Record(ctx, "two", recorded, link("a", 3, api.OutcomeClosed)), "what was released is not claimed")
		require.True(t, claim("two", due.Add(24*time.Hour)))
		require.NoError(t, s.Record(ctx, "two", recorded, link("a", 4, api.OutcomeClosed)))
		require.NoError(t, s.Release(ctx, "two", "a"), "nothing is left to release")
		require.False(t, claim("two", due.Add(24*time.Hour)))

		links, err := s.Links(ctx)
		require.NoError(t, err)
		require.ElementsMatch(t, []linkcheck.Link{
			{Slug: "a", Address: "https://a.example", DueAt: due.Add(24 * time.Hour), ClaimedAt: recorded, Recorded: true},
			{Slug: "b", Address: "https://a.example", DueAt: time.Unix(0, 0).UTC(), ClaimedAt: time.Unix(0, 0).UTC()},
		}, links)
		require.Equal(t, linkcheck.Actor, s.actorOf(t, "a"))
	})
}

func (s kept) actorOf(t *testing.T, slug string) (actor string) {
	t.Helper()
	require.NoError(t, s.db.Raw("SELECT DISTINCT actor FROM verification_events WHERE slug = ?", slug).Scan(&actor).Error)
	return actor
}

// The role that serves may do no more than that; checking links is part of it.
func TestTheServingRoleMayCheckLinks(t *testing.T) {
	url := storetest.Postgres(t)
	role, asRole := storetest.Role(t, url)
	cfg := database.Config{URL: url, ServingRole: role, MaxConnections: 2}
	require.NoError(t, database.Migrate(t.Context(), cfg, silent(t), migrations.Files))
	s := open(t, asRole)
	s.publish(t, "a")
	ours, err := s.Acquire(t.Context(), "one", recorded, recorded.Add(time.Minute))
	require.NoError(t, err)
	require.True(t, ours)
	ours, err = s.Claim(t.Context(), "one", "a", recorded, recorded)
	require.NoError(t, err)
	require.True(t, ours)
	require.NoError(t, s.Record(t.Context(), "one", recorded, link("a", 1, api.OutcomeReachable)))
	require.NoError(t, s.End(t.Context(), "one", recorded, time.Second, true))
}
