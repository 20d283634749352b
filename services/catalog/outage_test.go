package catalog_test

import (
	"net/http"
	"testing"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func TestHistoryOutage(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.history.setDown(true)
		records := listingtest.Records(6, 20, startTime)
		for i := range records {
			records[i].Summary = nil
		}
		s.load(records)
		at := startTime.Add(-time.Hour)
		for i := range records {
			records[i].Summary = &api.Summary{
				Slug: records[i].Entry.ID, LastCheckedAt: &at, FirstCheckedAt: &at, ReviewCount: 1, HistoryCount: 1,
				LastOutcome: api.OutcomeVerified,
			}
			s.history.add(*records[i].Summary)
		}
		s.history.add(api.Summary{Slug: "not-imported-yet", LastCheckedAt: &at, ReviewCount: 1,
			LastOutcome: api.OutcomeClosed})
		s.history.setDown(false)
		s.awaitRecords(records)

		s.curate("import", listingLine("not-imported-yet", `,"visibility":"published"`))
		storetest.Eventually(t, "a summary received before its listing applies", func() bool {
			a := s.get(api.Commercial, "/api/v1/opportunities/not-imported-yet")
			return a.Status == http.StatusOK &&
				servicetest.Read[api.OpportunityDetail](a).Data.Verification.Status == api.NeedsReview
		})
	})
}
