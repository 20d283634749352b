package desk

import (
	"context"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

// Changes returns what operators did to listings, newest first: up to limit acts that match f.
func (s *Store) Changes(ctx context.Context, f listing.ActFilter) (api.ListingActList, error) {
	q := s.db.WithContext(ctx).Table("listing_changes").Order("id DESC").Limit(f.Limit + 1)
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	if f.Actor != "" {
		q = q.Where("actor = ?", f.Actor)
	}
	if f.Listing != "" {
		q = q.Where("listing_id = ?", f.Listing)
	}
	if f.Action != "" {
		q = q.Where("what = ?", f.Action)
	}
	if !f.Since.IsZero() {
		q = q.Where("at >= ?", database.Micros(f.Since))
	}
	if !f.Until.IsZero() {
		q = q.Where("at < ?", database.Micros(f.Until))
	}
	var rows []struct {
		ID                                     int64
		At                                     int64
		ListingID, Actor, What, Fields, Reason string
	}
	if err := q.Scan(&rows).Error; err != nil {
		return api.ListingActList{}, database.Outage(err)
	}
	list := api.ListingActList{Acts: []api.IdentifiedAct{}}
	if len(rows) > f.Limit {
		rows = rows[:f.Limit]
		list.Next = rows[f.Limit-1].ID
	}
	for _, row := range rows {
		act := api.ListingAct{At: database.FromMicros(row.At), Actor: row.Actor, Action: row.What, Fields: []string{},
			Reason: row.Reason}
		if row.Fields != "" {
			act.Fields = strings.Split(row.Fields, ",")
		}
		list.Acts = append(list.Acts, api.IdentifiedAct{ID: row.ID, Listing: row.ListingID, ListingAct: act})
	}
	return list, nil
}
