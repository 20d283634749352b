package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/listingfile"
)

func TestInventedRecordsAreValid(t *testing.T) {
	now := time.Now()
	var listings, reviews bytes.Buffer
	require.NoError(t, writeListings(&listings, 20, 40, now))
	require.NoError(t, writeReviews(&reviews, 20, 40, now))
	require.InDelta(t, 20*2050, listings.Len(), 20*200, "about 2.7 KB each as records")

	l, err := listingfile.Read(&listings, now, 1)
	require.NoError(t, err)
	require.Empty(t, l.Rejected)
	require.Len(t, l.Lines, 20)
	require.Equal(t, recordID(20), l.Lines[0].ID)
	e, err := eventfile.Read(&reviews, now, 1)
	require.NoError(t, err)
	require.Empty(t, e.Rejected)
	require.Len(t, e.Lines, 20)
	require.Equal(t, recordID(39), e.Lines[19].Event.Slug)
}
