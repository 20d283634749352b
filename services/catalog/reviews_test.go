package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/catalog/internal/listingtest"
)

func (s *service) due(query string) api.DueList {
	s.t.Helper()
	return servicetest.Read[api.DueList](s.Do(http.MethodGet, "/operator/v1/reviews/due"+query, nil))
}

func TestDueListsUnverifiedRecordsOldestFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, s *service) {
		records := listingtest.Records(41, 150, startTime)
		s.load(records)
		s.curate("import", listingLine("candidate", ""))
		for query, within := range map[string]time.Duration{"": 0, "?within=0d": 0, "?within=7d": 7 * 24 * time.Hour,
			"?within=90m": 90 * time.Minute, "?within=1d12h": 36 * time.Hour} {
			want := map[string]api.VerificationStatus{}
			for _, o := range listingtest.Published(records, startTime.Add(within)) {
				if o.Verification.Status != api.Verified {
					want[o.ID] = ""
				}
			}
			for _, o := range listingtest.Published(records, startTime) {
				if _, ok := want[o.ID]; ok {
					want[o.ID] = o.Verification.Status
				}
			}
			list := s.due(query)
			require.Equal(t, startTime, list.GeneratedAt)
			require.Equal(t, startTime.Add(within), list.Until)
			got, last := map[string]api.VerificationStatus{}, time.Time{}
			for _, r := range list.Records {
				got[r.ID] = r.Status
				require.False(t, r.DueAt.Before(last), "oldest first")
				last = r.DueAt
				require.Equal(t, r.DueAt, r.Reasons[0].At)
			}
			for _, r := range records { // due again a while after the review
				if r.Summary != nil && r.Summary.LastOutcome == api.OutcomeClosed {
					delete(want, r.Entry.ID)
					delete(got, r.Entry.ID)
				}
			}
			require.Equal(t, want, got, query)
		}
		for _, wrong := range []string{"?within=7", "?within=-1h", "?within=366d", "?within=d", "?in=7d",
			"?within=99999999d"} {
			a := s.Do(http.MethodGet, "/operator/v1/reviews/due"+wrong, nil)
			require.Equal(t, http.StatusBadRequest, a.Status, wrong)
		}
	})
}

func TestDueReasons(t *testing.T) {
	onSQLite(t, func(t *testing.T, s *service) {
		s.curate("import", listingLine("x", `,"visibility":"published"`))
		reviewed := startTime.Add(-time.Hour)
		s.history.add(api.Summary{
			Slug: "x", Sequence: 1, LastEventID: "e-0", HistoryCount: 2, ReviewCount: 1, LastCheckedAt: &reviewed,
			FirstCheckedAt: &reviewed, LastOutcome: api.OutcomeVerified,
		})
		storetest.Eventually(t, "the review is applied", func() bool { return len(s.due("").Records) == 0 })
		sheet := operated[api.ReviewSheet](s, 200, "ann", "GET", "reviews/records/x", "")
		require.Equal(t, api.Verified, sheet.Status)
		require.Empty(t, sheet.Reasons)
		require.Equal(t, "e-0", sheet.LastEventID)
		require.Equal(t, []string{"x"}, []string{s.due("?within=14d").Records[0].ID})

		edit := func(hours int, from, to string) {
			s.clock.Set(startTime.Add(time.Duration(hours) * time.Hour))
			require.Equal(t, 1, s.curate("import", strings.NewReplacer("%", "x", from,
				to).Replace(minimalListing)+"}").Updated)
		}
		edit(1, `"startingCost":""`, `"startingCost":"1"`)
		edit(2, `"summary":"Work."`, `"summary":"Words."`)
		conflict := startTime.Add(3 * time.Hour)
		s.history.add(api.Summary{
			Slug: "x", Sequence: 2, HistoryCount: 3, ReviewCount: 1, LastCheckedAt: &reviewed,
			FirstCheckedAt: &reviewed, LastOutcome: api.OutcomeVerified,
			ConflictAt: &conflict, ApplicationLink: &api.ApplicationLink{Outcome: api.OutcomeClosed,
				CheckedAt: conflict},
			Doubt: &api.Doubt{EventID: "e-1", CheckType: api.LinkCheck, Outcome: api.OutcomeClosed, CheckedAt: conflict,
				Note: "404"},
		})
		storetest.Eventually(t, "the conflict is applied",
			func() bool { return len(s.due("").Records[0].Reasons) == 3 })
		require.Equal(t, api.DueRecord{
			ID: "x", Company: "Acme", Category: api.Online, Status: api.NeedsReview, DueAt: startTime.Add(time.Hour),
			LastCheckedAt: &reviewed,
			Reasons: []api.DueReason{
				{Why: api.DueEdit, At: startTime.Add(time.Hour), Fields: []string{"startingCost"},
					Actor: servicetest.Actor},
				{Why: api.DueEdit, At: startTime.Add(2 * time.Hour), Fields: []string{"startingCost"},
					Actor: servicetest.Actor},
				{Why: api.DueLinkCheck, At: conflict, Outcome: api.OutcomeClosed, EventID: "e-1", Note: "404"},
			},
		}, s.due("").Records[0])
		sheet = operated[api.ReviewSheet](s, 200, "ann", "GET", "reviews/records/x", "")
		require.Equal(t, api.NeedsReview, sheet.Status)
		require.Len(t, sheet.Reasons, 3)
		require.Len(t, sheet.Edits, 2)
		require.Equal(t, []api.FieldChange{{Field: "startingCost", Old: json.RawMessage(`""`),
			New: json.RawMessage(`"1"`)}}, sheet.Edits[0].Changes)
		require.Equal(t, "published", sheet.Visibility)
		for _, id := range []string{"unknown", "%00", "A"} {
			require.Equal(t, http.StatusNotFound, s.operate("ann", "GET", "reviews/records/"+id, "").Status)
		}
	})
}

// Package snapshot tests the counts.
func TestFreshnessMetrics(t *testing.T) {
	s := start(t, schema.SQLite(t))
	records := listingtest.Records(19, 80, startTime)
	s.load(records)
	total, verified, due := 0, 0, 0
	for _, o := range listingtest.Published(records, startTime) {
		if o.Verification.Status != api.Verified {
			due++
		}
		if o.Category == api.Online {
			total++
			if o.Verification.Status == api.Verified {
				verified++
			}
		}
	}
	text := s.Metrics()
	set := servicetest.Read[api.CatalogStatus](s.Do(http.MethodGet, "/operator/v1/catalog", nil)).FreeSet
	for _, line := range []string{
		fmt.Sprintf(`catalog_listings{category="online",status="verified"} %d`, verified),
		fmt.Sprintf(`catalog_listings_verified_ratio{category="online"} %v`, float64(verified)/float64(total)),
		fmt.Sprintf(`catalog_reviews_due{within="0d"} %d`, due),
		fmt.Sprintf("catalog_free_set_records %d", set.Records),
		fmt.Sprintf(`catalog_free_set_excluded{reason="never-reviewed"} %d`, set.NeverReviewed),
		fmt.Sprintf(`catalog_free_set_excluded{reason="not-open"} %d`, set.NotOpen),
	} {
		require.Contains(t, text, line+"\n")
	}
}
