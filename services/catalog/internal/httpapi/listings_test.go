package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/services/catalog/internal/listing"
)

func TestListingPage(t *testing.T) {
	f, after, limit, err := listingPage(params.Values{})
	require.NoError(t, err)
	require.Equal(t, listing.Filter{}, f)
	require.Equal(t, "", after)
	require.Equal(t, listLimit, limit)

	f, after, limit, err = listingPage(params.Values{
		"visibility": "private", "status": "needs-review", "category": "sell", "country": "ca", "text": "Máple %",
		"host":      "A.example",
		"dueBefore": "2026-11-20T00:00:00Z", "holder": "ann", "after": "a-1", "limit": "1000",
	})
	require.NoError(t, err)
	require.Equal(t, listing.Filter{
		Visibility: listingfile.Private, Status: api.NeedsReview, Category: api.Sell, Country: "CA", Text: "Máple %",
		Host:      "a.example",
		DueBefore: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Holder: "ann",
	}, f)
	require.Equal(t, "a-1", after)
	require.Equal(t, 1000, limit)
}
