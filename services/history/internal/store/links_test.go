package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/history/internal/store"
)

func TestLinkIsClaimedAndRecordedOnceADay(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		s.publish(t, "a", "b")
		ctx, due := t.Context(), recorded
		claim := func(run string, due time.Time) bool {
			t.Helper()
			ok, err := s.ClaimLink(ctx, run, "a", due, recorded)
			require.NoError(t, err)
			return ok
		}
		ok, err := s.AcquireRun(ctx, "one", recorded, recorded.Add(time.Minute))
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = s.AcquireRun(ctx, "two", recorded.Add(59*time.Second), recorded.Add(time.Hour))
		require.NoError(t, err)
		require.False(t, ok, "only one run may hold the lease")
		require.False(t, claim("two", due), "a claim needs the lease")
		require.True(t, claim("one", due))
		require.False(t, claim("one", due), "a claim is permanent")
		require.False(t, claim("one", due.Add(-24*time.Hour)))

		ok, err = s.AcquireRun(ctx, "two", recorded.Add(time.Minute), recorded.Add(time.Hour))
		require.NoError(t, err)
		require.True(t, ok, "an expired lease must be available")
		ok, err = s.RenewRun(ctx, "one", recorded.Add(2*time.Hour))
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, s.EndRun(ctx, "one", recorded, time.Second, true),
			"End must not release the lease of another run")
		ok, err = s.RenewRun(ctx, "two", recorded.Add(2*time.Hour))
		require.NoError(t, err)
		require.True(t, ok)
		require.False(t, claim("two", due), "the claim of a dead run must stay")

		e := link("a", 1, api.OutcomeReachable)
		require.Error(t, s.RecordCheck(ctx, "two", recorded, e, nil), "the claim belongs to another run")
		cause := &api.Cause{Text: "Registration is full.", Status: api.ApplicationClosed}
		require.NoError(t, s.RecordCheck(ctx, "one", recorded, e, cause), "the run that holds the claim may record late")
		require.Error(t, s.RecordCheck(ctx, "one", recorded, link("a", 2, api.OutcomeClosed), nil),
			"a claim yields one event")
		records, _, err := s.RecordHistory(ctx, "a", "")
		require.NoError(t, err)
		require.Len(t, records, 1)
		evidence, err := records[0].Private()
		require.NoError(t, err)
		require.Equal(t, cause, evidence.Cause)
		require.Equal(t, store.LinkActor, records[0].Actor)

		require.True(t, claim("two", due.Add(24*time.Hour)), "a new claim is possible the next day")
		require.NoError(t, s.ReleaseLink(ctx, "two", "a"))
		require.Error(t, s.RecordCheck(ctx, "two", recorded, link("a", 3, api.OutcomeClosed), nil),
			"a released link is not claimed")
		require.True(t, claim("two", due.Add(24*time.Hour)))
		require.NoError(t, s.RecordCheck(ctx, "two", recorded, link("a", 4, api.OutcomeClosed), nil))
		require.NoError(t, s.ReleaseLink(ctx, "two", "a"), "release after recording must change nothing")
		require.False(t, claim("two", due.Add(24*time.Hour)))

		all, err := s.Links(ctx)
		require.NoError(t, err)
		require.ElementsMatch(t, []store.Link{
			{Slug: "a", Address: "https://a.example", DueAt: due.Add(24 * time.Hour).UnixMicro(),
				ClaimedAt: recorded.UnixMicro(), RecordedAt: recorded.UnixMicro()},
			{Slug: "b", Address: "https://a.example"},
		}, all)
	})
}

// The serving role has minimal permissions, which must include link checks.
func TestServingRoleCanCheckLinks(t *testing.T) {
	s := serving(t)
	s.publish(t, "a")
	ok, err := s.AcquireRun(t.Context(), "one", recorded, recorded.Add(time.Minute))
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = s.ClaimLink(t.Context(), "one", "a", recorded, recorded)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, s.RecordCheck(t.Context(), "one", recorded, link("a", 1, api.OutcomeReachable), nil))
	s.read(t, recorded, payPage, api.OutcomeReachable, "text")
	s.appendLine(t, recorded, quoted("a", recorded, api.Quote{SourceURL: payPage, Exact: "text"}))
	require.Equal(t, map[api.Finding]int{api.QuotePresent: 1}, s.find(t, recorded))
	require.NoError(t, s.PrunePages(t.Context(), recorded.Add(time.Hour)))
	require.NoError(t, s.EndRun(t.Context(), "one", recorded, time.Second, true))
}
