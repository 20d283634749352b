package history_test

import (
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
func (s *instance) opinionRequests(actor string) []api.OpinionRequest {
	s.t.Helper()
	return servicetest.Read[api.OpinionList](s.Do(http.MethodGet, "/operator/v1/reviews/second-opinions", "",
		api.ActorHeader, actor)).Requests
}

// drawReview records reviews by ann until one more is drawn for a second opinion, and returns the
// request. A quarter of the reviews is drawn, because their source is not a page of the listing.
func (s *instance) drawReview(prefix string) api.OpinionRequest {
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
	return fmt.Sprintf(`{"slug":%q,"checkedAt":"2026-11-19T10:%02d:00Z","checkType":"review","outcome":"verified",`+
		`"sourceUrls":["https://b.example"],"facts":%s,"note":"by hand"}`,
		slug, minute, apitest.WholeFacts(`{"remote":`+remote+`,"requirements":["18 years or older"]}`))
}

// sendOpinion sends a second opinion, based on the drawn review. same has the facts whose texts
// mean the same or not.
func (s *instance) sendOpinion(actor, of, line string, same ...map[string]bool) api.ReviewReport {
	s.t.Helper()
	same = append(same, nil)
	in := api.ReviewAppend{Actor: actor, ReviewSubmission: api.ReviewSubmission{SecondOpinionOf: of,
		SameTexts: same[0]}}
	in.Review.LastEventID = &of
	return s.submit(in, line)
}

func TestSecondOpinionThatAgreesRecordsNoEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		request := s.drawReview("agree")
		require.Empty(t, s.opinionRequests("ann"), "nobody is asked about their own review")
		sheet := servicetest.Read[api.ReviewHistory](s.Do(http.MethodGet,
			"/internal/v1/records/"+request.ID+"?without="+request.EventID, ""))
		require.Empty(t, sheet.Events, "the first review must not be shown")
		require.Nil(t, sheet.Summary.Facts)
		require.Equal(t, request.EventID, sheet.Summary.LastEventID)
		require.Len(t, sheet.OpinionFacts, 3)
		require.Subset(t, sheet.OpinionFacts, []string{"remote", "requirements"}, "the known facts")

		own := s.sendOpinion("ann", request.EventID, opinionLine(request.ID, 30, "true"))
		require.False(t, own.Applied)
		require.Contains(t, own.Rejected[0].Problems[0].String(), "secondOpinionOf: must be a review in your list")
		got := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "true"))
		require.True(t, got.Applied)
		require.Empty(t, got.Disagree)
		require.Equal(t, api.OutcomeVerified, got.Outcome)
		require.Zero(t, got.Appended)
		require.Empty(t, s.opinionRequests("ben"))
		history := s.reviewHistory(request.ID)
		require.Nil(t, history.Opinion)
		require.Len(t, history.Events, 1, "a look at three facts is no review")
	})
}

func TestSecondOpinionThatDisagreesNeedsReview(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		request := s.drawReview("differ")
		got := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.True(t, got.Applied)
		require.Equal(t, []string{"remote"}, got.Disagree)
		require.Equal(t, api.OutcomeNeedsReview, got.Outcome)
		again := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.Equal(t, 1, again.Duplicates)
		require.Equal(t, got.EventID, again.EventID)
		require.Equal(t, []string{"remote"}, again.Disagree)
		require.False(t, s.sendOpinion("cy", request.EventID, opinionLine(request.ID, 31, "true")).Applied,
			"one opinion is enough")

		history := s.reviewHistory(request.ID)
		require.Equal(t, api.OutcomeNeedsReview, history.Summary.LastOutcome)
		require.True(t, *history.Summary.Facts.Remote, "the facts in effect must stay until a third review")
		require.Equal(t, "A second opinion differs in: remote.", history.Events[0].Note)
		require.Equal(t, "ben", history.Opinion.Actor)
		require.Equal(t, []string{"remote"}, history.Opinion.Differs)
		require.Contains(t, string(history.Opinion.Review), `"note":"by hand"`)

		s.review("cy", got.EventID, opinionLine(request.ID, 40, "false"))
		require.Nil(t, s.reviewHistory(request.ID).Opinion, "a later review resolves the disagreement")
	})
}

func TestTextsOfASecondOpinionAreComparedByItsAuthor(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		words := func(line, requirement string) string {
			return strings.Replace(line, "18 years or older", requirement, 1)
		}
		for same, outcome := range map[bool]api.Outcome{true: api.OutcomeVerified, false: api.OutcomeNeedsReview} {
			request := s.drawReview(fmt.Sprintf("texts-%t", same))
			opinion := words(opinionLine(request.ID, 30, "true"), "At least 18 years old")
			asked := s.sendOpinion("ben", request.EventID, opinion)
			require.False(t, asked.Applied)
			require.Empty(t, asked.Rejected)
			require.Equal(t, []api.ComparedTexts{{Fact: "requirements", First: []string{"18 years or older"},
				Second: []string{"At least 18 years old"}}}, asked.Texts)
			require.Equal(t, api.OutcomeVerified, s.reviewHistory(request.ID).Summary.LastOutcome)
			done := s.sendOpinion("ben", request.EventID, opinion, map[string]bool{"requirements": same})
			require.True(t, done.Applied)
			require.Equal(t, outcome, done.Outcome)
			require.Equal(t, !same, len(done.Disagree) == 1)
		}
	})
}

func TestLaterReviewByTheSameCuratorKeepsTheRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		request := s.drawReview("later")
		s.record(line(request.ID, "2026-11-19T11:00:00Z", api.LinkCheck, api.OutcomeReachable))
		history := s.reviewHistory(request.ID)
		corrected := s.review("ann", history.Events[0].ID, opinionLine(request.ID, 20, "false")).EventID
		require.Equal(t, request.EventID, s.opinionRequests("ben")[0].EventID)
		sheet := servicetest.Read[api.ReviewHistory](s.Do(http.MethodGet,
			"/internal/v1/records/"+request.ID+"?without="+request.EventID, ""))
		require.Len(t, sheet.Events, 1, "the link check; none of the first curator's reviews")
		require.Nil(t, sheet.Summary.Facts)
		require.Equal(t, corrected, sheet.Summary.LastEventID)

		old := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "true"))
		require.Len(t, old.Newer, 1, "the link check")
		require.Equal(t, api.LinkCheck, old.Newer[0].CheckType)
		body := strings.Replace(opinionLine(request.ID, 30, "false"), `"note"`,
			fmt.Sprintf(`"lastEventId":%q,"note"`, history.Events[0].ID), 1)
		done := s.submit(api.ReviewAppend{
			Actor: "ben", ReviewSubmission: api.ReviewSubmission{SecondOpinionOf: request.EventID},
		}, body)
		require.True(t, done.Applied, "a review that the sheet does not show is no reason to look again")
		require.Empty(t, done.Disagree, "it is compared with the corrected review")
		for _, open := range s.opinionRequests("ben") { // the corrected review may be drawn, too
			require.NotEqual(t, request.EventID, open.EventID)
		}
	})
}

func TestOpinionOnARetractedReviewHasNothingToDifferFrom(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		request := s.drawReview("retracted")
		s.review("ann", request.EventID, strings.Replace(opinionLine(request.ID, 20, "true"), "verified",
			"needs-review", 1))
		done := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.Equal(t, api.OutcomeVerified, done.Outcome)
	})
}

func TestReplacedReviewNeedsNoOpinion(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		request := s.drawReview("old")
		s.record(line(request.ID, "2026-11-19T11:00:00Z", api.LinkCheck, api.OutcomeReachable))
		require.Len(t, s.opinionRequests("ben"), 1, "a link check does not replace a review")
		late := s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 30, "false"))
		require.Len(t, late.Newer, 1)
		require.Len(t, s.opinionRequests("ben"), 1, "a rejected opinion can be given again")
		s.review("cy", late.Newer[0].ID, opinionLine(request.ID, 20, "true"))
		for _, r := range s.opinionRequests("ben") {
			require.NotEqual(t, request.EventID, r.EventID)
		}
		require.False(t, s.sendOpinion("ben", request.EventID, opinionLine(request.ID, 31, "true")).Applied)
	})
}

func TestUndoneReviewDoesNotReplaceTheDrawnOne(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		request := s.drawReview("undone")
		reviewThenUndo := func(actor, newest string, minute int, remote string) (undone string) {
			review := s.review(actor, newest, opinionLine(request.ID, minute, remote)).EventID
			return s.submit(api.ReviewAppend{Actor: actor, Undoes: review}, fmt.Sprintf(
				`{"slug":%q,"checkedAt":"2026-11-19T10:%02d:30Z","checkType":"review","outcome":"needs-review","sourceUrls":[],`+
					`"facts":null,"note":"","lastEventId":%q}`,
				request.ID, minute, review)).EventID
		}
		newest := reviewThenUndo("ann", reviewThenUndo("cy", request.EventID, 20, "true"), 25, "false")
		require.Equal(t, request.EventID, s.opinionRequests("ben")[0].EventID, "the review is in effect again")

		body := strings.Replace(opinionLine(request.ID, 30, "false"), `"note"`,
			fmt.Sprintf(`"lastEventId":%q,"note"`, newest), 1)
		done := s.submit(api.ReviewAppend{
			Actor: "ben", ReviewSubmission: api.ReviewSubmission{SecondOpinionOf: request.EventID},
		}, body)
		require.True(t, done.Applied)
		require.Equal(t, []string{"remote"}, done.Disagree,
			"it is compared with the review in effect, not with the undone one")
	})
}
