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
)

// opinionRequests returns the ids of the reviews on which an opinion of actor is requested.
func (s *instance) opinionRequests(actor string) (reviews []string) {
	s.t.Helper()
	for _, r := range servicetest.Read[api.OpinionList](s.Do(http.MethodGet, "/operator/v1/reviews/second-opinions", "",
		api.ActorHeader, actor)).Requests {
		reviews = append(reviews, r.EventID)
	}
	return reviews
}

// drawReview records reviews by ann until one more is drawn for a second opinion, and returns its
// listing and id. A quarter of the reviews is drawn, because their source is not a page of the
// listing.
func (s *instance) drawReview(prefix string) (slug, review string) {
	s.t.Helper()
	before := len(s.opinionRequests("ben"))
	for i := range 100 {
		slug = fmt.Sprintf("%s-%d", prefix, i)
		s.catalog.set(slug, true)
		s.public(slug)
		review = s.review("ann", "", opinionLine(slug, 10, "true")).EventID
		if all := s.opinionRequests("ben"); len(all) > before {
			require.Equal(s.t, review, all[before])
			return slug, review
		}
	}
	s.t.Fatal("none of 100 reviews was drawn")
	return "", ""
}

func opinionLine(slug string, minute int, remote string) string {
	return fmt.Sprintf(`{"slug":%q,"checkedAt":"2026-11-19T10:%02d:00Z","checkType":"review","outcome":"verified",`+
		`"sourceUrls":["https://b.example"],"facts":%s,"note":"by hand"}`,
		slug, minute, apitest.WholeFacts(`{"remote":`+remote+`,"requirements":["18 years or older"]}`))
}

// undo undoes a review, which is the newest event of the listing, and returns the event.
func (s *instance) undo(actor, slug, review, checkedAt string) string {
	s.t.Helper()
	return s.submit(api.ReviewAppend{Actor: actor, Undoes: review}, fmt.Sprintf(`{"slug":%q,"checkedAt":%q,`+
		`"checkType":"review","outcome":"needs-review","sourceUrls":[],"facts":null,"note":"","lastEventId":%q}`,
		slug, checkedAt, review)).EventID
}

// sendOpinion sends a second opinion on a review by an author who has seen the event seen. same has
// the facts whose texts mean the same or not.
func (s *instance) sendOpinion(actor, of, seen, line string, same map[string]bool) api.ReviewReport {
	s.t.Helper()
	in := api.ReviewAppend{Actor: actor, ReviewSubmission: api.ReviewSubmission{SecondOpinionOf: of, SameTexts: same}}
	in.Review.LastEventID = &seen
	return s.submit(in, line)
}

// A second opinion is compared with the review in effect by the author of the drawn one.
func TestSecondOpinion(t *testing.T) {
	onBoth(t, func(t *testing.T, s *instance) {
		for name, c := range map[string]struct {
			between func(slug, review string) (newest string) // nil: nothing happens
			remote  string
			applied bool
			outcome api.Outcome
		}{
			"agrees":    {nil, "true", true, api.OutcomeVerified},
			"disagrees": {nil, "false", true, api.OutcomeNeedsReview},
			"agrees with the corrected review": {func(slug, review string) string {
				return s.review("ann", review, opinionLine(slug, 20, "false")).EventID
			}, "false", true, api.OutcomeVerified},
			"nothing to differ from": {func(slug, review string) string {
				return s.review("ann", review, strings.Replace(opinionLine(slug, 20, "true"), "verified", "needs-review",
					1)).EventID
			}, "false", true, api.OutcomeVerified},
			"replaced by another curator": {func(slug, review string) string {
				return s.review("cy", review, opinionLine(slug, 20, "true")).EventID
			}, "false", false, ""},
			"undone reviews do not count": {func(slug, review string) string {
				cy := s.review("cy", review, opinionLine(slug, 20, "true")).EventID
				undone := s.undo("cy", slug, cy, "2026-11-19T10:21:00Z")
				ann := s.review("ann", undone, opinionLine(slug, 25, "false")).EventID
				return s.undo("ann", slug, ann, "2026-11-19T10:26:00Z")
			}, "false", true, api.OutcomeNeedsReview},
		} {
			t.Run(name, func(t *testing.T) {
				slug, review := s.drawReview(strings.ReplaceAll(name, " ", "-"))
				newest := review
				if c.between != nil {
					newest = c.between(slug, review)
				}
				require.Equal(t, c.applied, strings.Contains(strings.Join(s.opinionRequests("ben"), " "), review))
				events := len(s.reviewHistory(slug).Events)
				got := s.sendOpinion("ben", review, newest, opinionLine(slug, 30, c.remote), nil)
				require.Equal(t, c.applied, got.Applied, got.Rejected)
				require.Equal(t, c.outcome, got.Outcome)
				require.NotContains(t, s.opinionRequests("ben"), review)
				history := s.reviewHistory(slug)
				if c.outcome != api.OutcomeNeedsReview {
					require.Empty(t, got.Disagree)
					require.Nil(t, history.Opinion)
					require.Len(t, history.Events, events, "a look at three facts is no review")
					return
				}
				require.Equal(t, []string{"remote"}, got.Disagree)
				again := s.sendOpinion("ben", review, newest, opinionLine(slug, 30, c.remote), nil)
				require.Equal(t, []any{1, got.EventID, got.Disagree}, []any{again.Duplicates, again.EventID, again.Disagree})
				require.False(t, s.sendOpinion("dee", review, newest, opinionLine(slug, 31, "true"), nil).Applied,
					"one opinion is enough")
				require.True(t, *history.Summary.Facts.Remote, "the facts in effect must stay until a third review")
				require.Equal(t, "A second opinion differs in: remote.", history.Events[0].Note)
				require.Equal(t, "ben", history.Opinion.Actor)
				require.Equal(t, got.Disagree, history.Opinion.Differs)
				require.Contains(t, string(history.Opinion.Review), `"note":"by hand"`)
				s.review("dee", got.EventID, opinionLine(slug, 40, "false"))
				require.Nil(t, s.reviewHistory(slug).Opinion, "a later review resolves the disagreement")
			})
		}
	})
}

// The author of a second opinion sees none of the first curator's reviews, and must know other
// events.
func TestSheetOfASecondOpinionHidesTheFirstReviews(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		slug, review := s.drawReview("sheet")
		require.Empty(t, s.opinionRequests("ann"), "nobody is asked about their own review")
		require.Contains(t, s.sendOpinion("ann", review, review, opinionLine(slug, 30, "true"), nil).Rejected[0].
			Problems[0].String(), "secondOpinionOf: must be a review in your list")
		s.record(line(slug, "2026-11-19T11:00:00Z", api.LinkCheck, api.OutcomeReachable))
		linkCheck := s.reviewHistory(slug).Events[0].ID
		corrected := s.review("ann", linkCheck, opinionLine(slug, 20, "false")).EventID
		sheet := servicetest.Read[api.ReviewHistory](s.Do(http.MethodGet,
			"/internal/v1/records/"+slug+"?without="+review, ""))
		require.Len(t, sheet.Events, 1, "the link check")
		require.Nil(t, sheet.Summary.Facts)
		require.Equal(t, corrected, sheet.Summary.LastEventID)
		require.Len(t, sheet.OpinionFacts, 3)
		require.Subset(t, sheet.OpinionFacts, []string{"remote", "requirements"}, "the known facts")

		old := s.sendOpinion("ben", review, review, opinionLine(slug, 30, "true"), nil)
		require.Len(t, old.Newer, 1, "the link check")
		require.Equal(t, linkCheck, old.Newer[0].ID)
		require.Equal(t, []string{"remote"}, s.sendOpinion("ben", review, linkCheck, opinionLine(slug, 30, "true"),
			nil).Disagree, "a review that the sheet does not show is no reason to look again")
	})
}

func TestTextsOfASecondOpinionAreComparedByItsAuthor(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *instance) {
		for same, outcome := range map[bool]api.Outcome{true: api.OutcomeVerified, false: api.OutcomeNeedsReview} {
			slug, review := s.drawReview(fmt.Sprintf("texts-%t", same))
			opinion := strings.Replace(opinionLine(slug, 30, "true"), "18 years or older", "At least 18 years old", 1)
			asked := s.sendOpinion("ben", review, review, opinion, nil)
			require.False(t, asked.Applied)
			require.Equal(t, []api.ComparedTexts{{Fact: "requirements", First: []string{"18 years or older"},
				Second: []string{"At least 18 years old"}}}, asked.Texts)
			done := s.sendOpinion("ben", review, review, opinion, map[string]bool{"requirements": same})
			require.True(t, done.Applied)
			require.Equal(t, outcome, done.Outcome)
		}
	})
}
