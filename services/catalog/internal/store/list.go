package store

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

// maxChanges is the maximum number of changes in a detail.
const maxChanges = 100

// Detail returns the listing with the id, its record and its latest changes, or problem.NotFound.
func (s *Store) Detail(ctx context.Context, id string) (api.ListingDetail, error) {
	tx := s.db.WithContext(ctx)
	l, err := findListing(tx, id)
	if err != nil {
		return api.ListingDetail{}, err
	}
	known, err := summaries(tx, []string{id})
	if err != nil {
		return api.ListingDetail{}, err
	}
	rows, err := acts(tx, listing.ActFilter{Listing: id}, maxChanges)
	if err != nil {
		return api.ListingDetail{}, err
	}
	changes := make([]api.ListingAct, len(rows))
	for i, row := range rows {
		changes[i] = row.Change.act()
	}
	line, version, err := encodeEntry(l.entry)
	now := s.now().UTC()
	return api.ListingDetail{
		GeneratedAt: now, Version: version, Listing: line, Record: l.entry.Public(known[id], now), Changes: changes,
		CreatedAt: database.FromMicros(l.row.CreatedAt), UpdatedAt: database.FromMicros(l.row.UpdatedAt),
		ChangedAt: l.entry.ChangedAt,
	}, err
}
