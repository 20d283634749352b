package store

import (
	"context"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
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
	changes, err := s.changes(ctx, id)
	if err != nil {
		return api.ListingDetail{}, database.Outage(err)
	}
	line, version, err := encodeEntry(l.entry)
	if err != nil {
		return api.ListingDetail{}, err
	}
	now := s.now().UTC()
	return api.ListingDetail{
		GeneratedAt: now, Version: version, Listing: line, Record: l.entry.Public(known[id], now), Changes: changes,
		CreatedAt: database.FromMicros(l.row.CreatedAt), UpdatedAt: database.FromMicros(l.row.UpdatedAt),
		ChangedAt: l.entry.ChangedAt,
	}, nil
}

func (s *Store) changes(ctx context.Context, id string) ([]api.ListingAct, error) {
	var rows []changeRow
	err := s.db.WithContext(ctx).Where("listing_id = ?", id).Order("id DESC").Limit(maxChanges).Find(&rows).Error
	changes := make([]api.ListingAct, len(rows))
	for i, row := range rows {
		changes[i] = api.ListingAct{At: database.FromMicros(row.At), Actor: row.Actor, Action: row.What,
			Fields: []string{}, Reason: row.Reason}
		if row.Fields != "" {
			changes[i].Fields = strings.Split(row.Fields, ",")
		}
	}
	return changes, err
}
