package catalog_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/storetest"
)

// submit sends a review of what the sheet shows, with more members of the submission.
func (s *service) submit(actor, id, more string) api.ReviewReport {
	s.t.Helper()
	body := submission(s.t, operated[api.ReviewSheet](s, 200, actor, "GET", "reviews/records/"+id, ""), actor)
	return operated[api.ReviewReport](s, 200, actor, "POST", "reviews/records/"+id, strings.TrimSuffix(body, "}")+more+"}")
}

func TestSomeUnchangedReviewsNeedAnOpenedSource(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		require.True(t, s.submit("first", "x", "").Applied, "the first review is a change")
		var drawn []string
		for i := range 100 { // each on the same sheet until one is recorded, so each draws for itself
			actor := fmt.Sprintf("curator-%d", i)
			sheet := operated[api.ReviewSheet](s, 200, actor, "GET", "reviews/records/x", "")
			report := s.submit(actor, "x", "")
			if report.Applied {
				continue
			}
			drawn = append(drawn, actor)
			require.Equal(t, "sourceUrls", report.Rejected[0].Problems[0].Path)
			require.Contains(t, report.Rejected[0].Problems[0].Message, "one unchanged review in ten")
			require.False(t, s.submit(actor, "x", "").Applied, "another try draws the same")
			s.open("another", "x", sheet)
			require.False(t, s.submit(actor, "x", "").Applied, "another operator opened it")
			s.open(actor, "x", sheet)
			require.True(t, s.submit(actor, "x", "").Applied)
			require.Equal(t, "https://acme.example/about", s.history.opened("x"), "the review records it")
		}
		require.NotEmpty(t, drawn)
		require.Less(t, len(drawn), 50)
		require.Equal(t, http.StatusBadRequest, s.operate("ann", "PUT", "reviews/records/x/opened",
			`{"sourceUrl":"x"}`).Status)
		require.Equal(t, http.StatusNotFound, s.operate("ann", "PUT", "reviews/records/y/opened",
			`{"sourceUrl":"https://acme.example/"}`).Status)
	})
}

// Starting cost and work model are saved with the review that covers them, and put it in no doubt.
func TestReviewChangesTheListingWithIt(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		change := func(field, from, to string) string {
			return fmt.Sprintf(`,"changes":[{"field":%q,"old":%q,"new":%q}]`, field, from, to)
		}
		require.True(t, s.submit("ann", "x", change("startingCost", "", "10 CAD")).Applied)
		s.clock.Set(startTime.Add(time.Hour))
		require.True(t, s.submit("ann", "x", change("company.website", "https://acme.example",
			"https://acme.example/new")).Applied)
		storetest.Eventually(t, "the review is applied", func() bool {
			sheet := s.sheetFor("ann", "x")
			return sheet.Status == api.Verified && len(sheet.Edits) == 0 && sheet.Record.StartingCost == "10 CAD" &&
				sheet.Record.Company.Website == "https://acme.example/new"
		})
		for more, path := range map[string]string{
			change("startingCost", "9 CAD", "11 CAD"):                  "startingCost",
			change("company.website", "https://acme.example/new", "?"): "company.website",
			change("summary", "Work.", "Words."):                       "changes",
			change("category", "online", "none"):                       "category",
		} {
			report := s.submit("ben", "x", more)
			require.False(t, report.Applied, more)
			require.Equal(t, path, report.Rejected[0].Problems[0].Path)
		}
		require.Len(t, s.sheetFor("ben", "x").Events, 2, "a rejected change records no review")
		acts := operated[api.ListingActList](s, 200, "ann", "GET", "changes?action=updated", "").Acts
		require.Equal(t, "with a review", acts[0].Reason)
	})
}

func TestWithdrawalIsProposedToPublishers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		for _, id := range []string{"ended", "paused", "twice", "reopened"} {
			s.curate("import", listingLine(id, `,"visibility":"published"`))
		}
		pending := func() (ids []string) {
			for _, w := range operated[api.WithdrawalList](s, 200, "pat", "GET", "reviews/withdrawals", "").Withdrawals {
				ids = append(ids, w.ID)
			}
			return ids
		}
		closed := func(id, why string) {
			sheet := s.sheetFor("ann", id)
			body := strings.Replace(submission(t, sheet, why), `"outcome":"verified"`,
				fmt.Sprintf(`"outcome":"closed","evidence":{"quotes":[],"gone":[],"unopened":[],"closed":%q}`, why), 1)
			report := operated[api.ReviewReport](s, 200, "ann", "POST", "reviews/records/"+id, body)
			require.True(t, report.Applied, report.Rejected)
		}
		closed("ended", "ended")
		closed("paused", "paused")
		closed("reopened", "ended")
		storetest.Eventually(t, "the reviews are applied", func() bool { return len(pending()) == 2 })
		require.Empty(t, s.queued("?scope=today&text=paused"), "a closed record does not come back at once")
		s.clock.Set(startTime.Add(api.FreshnessWindow + 1))
		require.Equal(t, []string{"paused"}, s.queued("?scope=today&text=paused"))

		require.Equal(t, http.StatusNoContent, s.operate("pat", "POST", "reviews/records/twice/propose-withdrawal",
			`{"reason":"Duplicate of ended."}`).Status)
		require.Equal(t, http.StatusBadRequest, s.operate("pat", "POST", "reviews/records/twice/propose-withdrawal",
			`{}`).Status)
		require.Equal(t, []string{"ended", "reopened", "twice"}, pending())
		s.curate("withdraw", `{"ids":["ended"],"reason":"ended"}`)
		require.Equal(t, http.StatusNoContent, s.operate("pat", "POST", "reviews/records/twice/decline-withdrawal",
			`{}`).Status)
		require.Equal(t, []string{"reopened"}, pending())
		report := s.verify("ben", "reopened", "")
		require.True(t, report.Applied, "it is open again")
		storetest.Eventually(t, "the later review takes the proposal back", func() bool { return len(pending()) == 0 })
	})
}
