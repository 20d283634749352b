package curation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/store"
	"opportunity.internal/services/catalog/internal/store/curation"
)

// at is the time of the stores' clock.
var at = time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)

// stores are the stores of listings and of curation on one database.
type stores struct {
	*curation.Store

	listings *store.Store
	db       *database.DB
}

var schema = servicetest.NewSchema(store.Migrations)

func open(t testing.TB, url string) stores {
	t.Helper()
	db := servicetest.OpenDatabase(t, url)
	now := func() time.Time { return at }
	return stores{curation.New(db, now), store.New(db, now), db}
}

func onEachDatabase(t *testing.T, test func(t *testing.T, s stores)) {
	schema.OnBothDatabases(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

func TestListFilters(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s stores) {
		file := apitest.Lines("acme", "b-acme", "c", "d", "e")
		file[0].Visibility, file[3].Visibility, file[4].Visibility = listingfile.Published, listingfile.Withdrawn,
			listingfile.Published
		file[2].Company.Name, file[2].Category = "The ACMÉ Co", api.Host
		file[2].Company.Website = "https://www.Other.example/x"
		file[4].Facts = new(api.UnknownFacts())
		file[4].Facts.CountryEligibility = []api.CountryEligibility{{Country: "CA", Status: api.Eligible},
			{Country: "US", Status: api.Ineligible}}
		_, err := s.listings.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		_, _, err = s.TakeLease(t.Context(), "acme", "ann", false)
		require.NoError(t, err)
		require.NoError(t, s.listings.Save(t.Context(), feed.Cursor{},
			apitest.Encoded(api.Summary{Slug: "d", Sequence: 1, LastCheckedAt: &at, LastOutcome: api.OutcomeClosed}),
			feed.Cursor{}))

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
			{"acme b-acme c", listing.Filter{Text: "ACME"}},
			{"c", listing.Filter{Text: "acmé C", Visibility: listingfile.Private}},
			{"c", listing.Filter{Text: " acme\u0301 co", Visibility: listingfile.Private}},
			{"c", listing.Filter{Text: "ＡＣＭＥ co"}},
			{"", listing.Filter{Text: "%"}},
			{"c", listing.Filter{Host: "other.example"}},
			{"acme", listing.Filter{Holder: "ann"}},
			{"acme e", listing.Filter{DueBefore: at.Add(time.Second)}},
			{"", listing.Filter{DueBefore: at}},
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

func TestCandidateNamesTheFirstDuplicates(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, s stores) {
		ids := strings.Split("abcdefghijklmno", "")
		file := apitest.Lines(ids...)
		for i := range file {
			file[i].Company = api.Company{Name: "Company " + ids[i], Website: "https://apps.example/" + ids[i]}
		}
		file[13].Company.Name, file[13].Company.Website = "Company o", "https://n.example"
		_, err := s.listings.Import(t.Context(), "ann", apitest.File(file), false)
		require.NoError(t, err)
		for after, want := range map[string]string{"": "bcdefghijk", "d": "abcdfghijk", "m": "o", "n": "abcdefghij"} {
			list, err := s.Candidates(t.Context(), listing.Filter{}, after, 1)
			require.NoError(t, err)
			got := ""
			for _, d := range list.Candidates[0].Duplicates {
				got += d.ID
			}
			require.Equal(t, want, got, "after %q", after)
		}
	})
}
