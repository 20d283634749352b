package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/store"
)

func TestListFilters(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		file := lines("acme", "b-acme", "c", "d", "e")
		file[0].Visibility, file[3].Visibility, file[4].Visibility = listingfile.Published, listingfile.Withdrawn, listingfile.Published
		file[2].Company.Name, file[2].Category = "The ACMÉ Co", api.Host
		file[4].Facts = new(api.UnknownFacts())
		file[4].Facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible}, {Country: "US", Status: api.Ineligible}}
		_, err := s.Import(t.Context(), "ann", file)
		require.NoError(t, err)
		require.NoError(t, s.SaveSummaries(t.Context(), apitest.Encoded(api.Summary{Slug: "d", Sequence: 1, LastCheckedAt: &at, LastOutcome: api.OutcomeClosed})))

		for _, c := range []struct {
			want string
			f    listing.Filter
		}{
			{"acme b-acme c d e", listing.Filter{}},
			{"acme e", listing.Filter{Visibility: listingfile.Published}},
			{"b-acme c", listing.Filter{Visibility: listingfile.Private}},
			{"d", listing.Filter{Status: api.NeedsReview}},
			{"acme b-acme c e", listing.Filter{Status: api.Unverified}},
			{"c", listing.Filter{Category: api.Host}},
			{"e", listing.Filter{Country: "CA"}},
			{"", listing.Filter{Country: "US"}},
			{"acme b-acme", listing.Filter{Text: "ACME"}},
			{"c", listing.Filter{Text: "acmé C", Visibility: listingfile.Private}},
		} {
			list, err := s.List(t.Context(), c.f, "", 10)
			require.NoError(t, err)
			require.Empty(t, list.Next)
			require.Equal(t, c.want, joined(list), "%+v", c.f)
		}
		var walked []string
		for after := ""; ; {
			list, err := s.List(t.Context(), listing.Filter{Status: api.Unverified}, after, 2)
			require.NoError(t, err)
			for _, l := range list.Listings {
				walked = append(walked, l.ID)
			}
			if after = list.Next; after == "" {
				break
			}
		}
		require.Equal(t, []string{"acme", "b-acme", "c", "e"}, walked)
	})
}

func joined(list api.ListingList) string {
	ids := make([]string, len(list.Listings))
	for i, l := range list.Listings {
		ids[i] = l.ID
	}
	return strings.Join(ids, " ")
}

func TestListSkipsBatchesWithoutMatches(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		var many []string
		for i := range 1100 {
			many = append(many, fmt.Sprintf("l-%04d", i))
		}
		_, err := s.Import(t.Context(), "ann", lines(many...))
		require.NoError(t, err)
		list, err := s.List(t.Context(), listing.Filter{Text: "-109"}, "l-0001", 3)
		require.NoError(t, err)
		require.Equal(t, "l-1090 l-1091 l-1092", joined(list))
		require.Equal(t, "l-1092", list.Next)
	})
}

func TestDetailIncludesCurationAndChanges(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s *store.Store, _ *database.DB) {
		file := lines("a")
		file[0].Curation = &listingfile.Curation{Contact: "jo@example.com", Notes: "<n>"}
		_, err := s.Import(t.Context(), "ann", file)
		require.NoError(t, err)
		_, err = s.Publish(t.Context(), "bob", []string{"a"}, false)
		require.NoError(t, err)
		detail, err := s.Detail(t.Context(), "a")
		require.NoError(t, err)
		require.Contains(t, string(detail.Listing), `"visibility":"published","curation":{"contact":"jo@example.com","notes":"<n>"}}`)
		require.Equal(t, "a", detail.Record.ID)
		require.Equal(t, api.Unverified, detail.Record.Verification.Status)
		require.Equal(t, at, detail.CreatedAt)
		require.Equal(t, []api.ListingAct{
			{At: at, Actor: "bob", Action: "published", Fields: []string{"visibility", "publishedAt"}},
			{At: at, Actor: "ann", Action: "imported", Fields: []string{}},
		}, detail.Changes)
		for _, id := range []string{"b", "\x00", "A"} {
			_, err = s.Detail(t.Context(), id)
			require.Equal(t, problem.NotFound, problem.Of(err).Code, id)
		}
	})
}
