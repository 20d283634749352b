package store

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

// List returns up to limit listings that match f and have an id greater than after, ordered by id. Next is the last id if there are more.
func (s *Store) List(ctx context.Context, f listing.Filter, after string, limit int) (api.ListingList, error) {
	now := s.now().UTC()
	list := api.ListingList{Listings: []api.ListedListing{}}
	for last := after; ; {
		var rows []*listingRow
		tx := s.db.WithContext(ctx).Where("id > ?", last)
		if f.Visibility != "" {
			tx = tx.Where("visibility = ?", f.Visibility)
		}
		if err := tx.Order("id").Limit(batch).Find(&rows).Error; err != nil {
			return api.ListingList{}, database.Outage(err)
		}
		ids := make([]string, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		known, err := summaries(s.db.WithContext(ctx), ids)
		if err != nil {
			return api.ListingList{}, err
		}
		for _, row := range rows {
			e, err := row.entry(nil)
			if err != nil {
				return api.ListingList{}, err
			}
			public := e.Public(known[row.ID], now)
			if !f.Matches(e, public) {
				continue
			}
			if len(list.Listings) == limit {
				list.Next = list.Listings[limit-1].ID
				return list, nil
			}
			list.Listings = append(list.Listings, e.Listed(public, database.FromMicros(row.UpdatedAt)))
		}
		if len(rows) < batch {
			return list, nil
		}
		last = rows[len(rows)-1].ID
	}
}

// maxChanges is the maximum number of changes in a detail.
const maxChanges = 100

// Detail returns the listing with the id, its record and its latest changes, or problem.NotFound.
func (s *Store) Detail(ctx context.Context, id string) (api.ListingDetail, error) {
	tx := s.db.WithContext(ctx)
	row, notes, err := findListing(tx, id)
	if err != nil {
		return api.ListingDetail{}, err
	}
	e, err := row.entry(notes)
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
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return api.ListingDetail{}, err
	}
	now := s.now().UTC()
	return api.ListingDetail{
		GeneratedAt: now, Listing: line.Bytes(), Record: e.Public(known[id], now), Changes: changes,
		CreatedAt: database.FromMicros(row.CreatedAt), UpdatedAt: database.FromMicros(row.UpdatedAt), ChangedAt: e.ChangedAt,
	}, nil
}

// changes returns the latest changes of a listing, newest first.
func (s *Store) changes(ctx context.Context, id string) ([]api.ListingAct, error) {
	var rows []changeRow
	err := s.db.WithContext(ctx).Where("listing_id = ?", id).Order("id DESC").Limit(maxChanges).Find(&rows).Error
	changes := make([]api.ListingAct, len(rows))
	for i, row := range rows {
		changes[i] = api.ListingAct{At: database.FromMicros(row.At), Actor: row.Actor, Action: row.What, Fields: []string{}}
		if row.Fields != "" {
			changes[i].Fields = strings.Split(row.Fields, ",")
		}
	}
	return changes, err
}
