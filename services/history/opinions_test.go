package history_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
)

// opinionRequests returns the requests for actor's opinion.
func (s *service) opinionRequests(actor string) []api.OpinionRequest {
	s.t.Helper()
	return servicetest.Read[api.OpinionList](s.Do(http.MethodGet, "/operator/v1/reviews/second-opinions", "", api.ActorHeader, actor)).Requests
}

// drawReview records reviews by ann until one more is drawn for a second opinion, and returns the request. A quarter of the reviews is drawn,
// because their source is not a page of the listing.
func (s *service) drawReview(prefix string) api.OpinionRequest {
	s.t.Helper()
	before := len(s.opinionRequests("ben"))
	var slugs []string
	for i := range 100 {
		slugs = append(slugs, fmt.Sprintf("%s-%d", prefix, i))
		s.catalog.set(slugs[i], true)
	}
	storetest.Eventually(s.t, "all listings are copied", func() bool {
		return s.get("/api/v1/opportunities/"+slugs[len(slugs)-1]+"/history").Status == http.StatusOK
	})
	for _, slug := range slugs {
		s.review("ann", "", opinionLine(slug, 10, "true"))
		if all := s.opinionRequests("ben"); len(all) > before {
			require.Equal(s.t, slug, all[before].ID)
			return all[before]
		}
	}
	s.t.Fatal("none of 100 reviews was drawn")
	return api.OpinionRequest{}
}

func opinionLine(slug string, minute int, remote string) string {
	return fmt.Sprintf(`{"slug":%q,"checkedAt":"2026-11-19T10:%02d:00Z","checkType":"review","outcome":"verified","sourceUrls":["https://b.example"],"facts":%s,"note":"by hand"}`,
		slug, minute, apitest.WholeFacts(`{"remote":`+remote+`}`))
}

// sendOpinion sends a second opinion, based on the drawn review.
func (s *service) sendOpinion(actor, of, line string) api.ReviewAppended {
	s.t.Helper()
	text := strings.TrimSuffix(line, "}") + fmt.Sprintf(`,"lastEventId":%q}`, of)
	body, err := json.Marshal(api.ReviewAppend{Actor: actor, Review: json.RawMessage(text), SecondOpinionOf: of})
	require.NoError(s.t, err)
	return servicetest.Read[api.ReviewAppended](s.Do(http.MethodPost, "/internal/v1/reviews", string(body)))
}

func TestSecondOpinionThatAgreesIsAReview(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		request := s.drawReview("agree")
		require.Empty(t, s.opinionRequests("ann"), "nobody is asked about their own review")
		sheet := servicetest.Read[api.ReviewHistory](s.Do(http.MethodGet, "/internal/v1/records/"+request.ID+"?without="+request.EventID, ""))
		require.Empty(t, sheet.Events, "the first review must not be shown")
		require.Nil(t, sheet.Summary.Facts)
		require.Equal(t, request.EventID, sheet.Summary.LastEventID)

		own := s.sendOpinion("ann", request.EventID, opinionLine(request.ID, 30, "true"))
		require.False(t, own.Report.Applied)
		require.Contains(t, own.Report.Rejected[0].Problems[0], "secondOpinionOf: must be a review in your list")
		got := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "true"))
		require.True(t, got.Report.Applied)
		require.Empty(t, got.Report.Disagree)
		require.Equal(t, api.OutcomeVerified, got.Report.Outcome)
		require.Empty(t, s.opinionRequests("ben"))
		require.Nil(t, s.reviewHistory(request.ID).Opinion)
	})
}

func TestSecondOpinionThatDisagreesNeedsReview(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		request := s.drawReview("differ")
		got := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.True(t, got.Report.Applied)
		require.Equal(t, []string{"remote"}, got.Report.Disagree)
		require.Equal(t, api.OutcomeNeedsReview, got.Report.Outcome)
		again := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.Equal(t, 1, again.Report.Duplicates)
		require.Equal(t, got.Report.EventID, again.Report.EventID)
		require.Equal(t, []string{"remote"}, again.Report.Disagree)
		require.False(t, s.sendOpinion("cy", request.EventID, opinionLine(request.ID, 31, "true")).Report.Applied, "one opinion is enough")

		history := s.reviewHistory(request.ID)
		require.Equal(t, api.OutcomeNeedsReview, history.Summary.LastOutcome)
		require.True(t, *history.Summary.Facts.Remote, "the facts in effect must stay until a third review")
		require.Equal(t, "A second opinion differs in: remote.", history.Events[0].Note)
		require.Equal(t, "ben", history.Opinion.Actor)
		require.Equal(t, []string{"remote"}, history.Opinion.Differs)
		require.Contains(t, string(history.Opinion.Review), `"note":"by hand"`)

		s.review("cy", got.Report.EventID, opinionLine(request.ID, 40, "false"))
		require.Nil(t, s.reviewHistory(request.ID).Opinion, "a later review resolves the disagreement")
	})
}

func TestReplacedReviewNeedsNoOpinion(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		request := s.drawReview("old")
		s.record(line(request.ID, "2026-11-19T11:00:00Z", api.LinkCheck, api.OutcomeReachable))
		require.Len(t, s.opinionRequests("ben"), 1, "a link check does not replace a review")
		late := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "true"))
		require.Len(t, late.Report.Newer, 1)
		require.Len(t, s.opinionRequests("ben"), 1, "a rejected opinion can be given again")
		s.review("cy", late.Report.Newer[0].ID, opinionLine(request.ID, 20, "true"))
		for _, r := range s.opinionRequests("ben") {
			require.NotEqual(t, request.EventID, r.EventID)
		}
		require.False(t, s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 31, "true")).Report.Applied)
	})
}
