package history_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/service/servicetest"
)

func TestReviewThatMissesNewerEventsIsAConflict(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		s.record(line("a", "2026-11-10T00:00:00Z", api.LinkCheck, api.OutcomeReachable))
		page := servicetest.Read[feed.Page[api.EncodedSummary]](s.get("/internal/v1/summaries"))
		seen := apitest.Decoded(page.Changes)[0].LastEventID
		s.record(line("a", "2026-11-11T00:00:00Z", api.LinkCheck, api.OutcomeUnreachable))

		review := strings.TrimSuffix(line("a", "2026-11-12T00:00:00Z", api.FactualReview, api.OutcomeVerified), "}")
		a := s.Do(http.MethodPost, "/operator/v1/events/append", review+`,"lastEventId":"`+seen+`"}`)
		require.Equal(t, http.StatusConflict, a.Status, a.Body)
		var report api.AppendReport
		require.NoError(t, json.Unmarshal([]byte(a.Body), &report))
		require.False(t, report.Applied)
		require.Empty(t, report.Rejected)
		require.Len(t, report.Newer, 1)
		require.Equal(t, []any{"a", "ada", now, api.OutcomeUnreachable}, // listing, actor, time and outcome
			[]any{report.Newer[0].Slug, report.Newer[0].Actor, report.Newer[0].RecordedAt, report.Newer[0].Outcome})

		s.record(review + `,"lastEventId":"` + report.Newer[0].ID + `"}`)
		list := s.get("/api/v1/opportunities/a/history")
		require.Len(t, servicetest.Read[api.EventList](list).Data, 3)
		require.NotContains(t, list.Body, "lastEventId", "the precondition must not be part of the event")
	})
}

func TestCheckAheadOfTheClockIsNotShownLaterThanTheResponse(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		s.catalog.set("a", true)
		ahead := line("a", now.Add(20*time.Millisecond).Format(time.RFC3339Nano), api.FactualReview,
			api.OutcomeVerified)
		s.record(ahead)
		require.Equal(t, 1, s.append(ahead).Duplicates, "the event must be recorded as sent")
		list := servicetest.Read[api.EventList](s.get("/api/v1/opportunities/a/history"))
		require.Equal(t, list.Meta.GeneratedAt, list.Data[0].CheckedAt)
		require.Len(t, s.append(line("a", now.Add(1100*time.Millisecond).Format(time.RFC3339Nano), api.FactualReview,
			api.OutcomeVerified)).Rejected, 1)
	})
}
