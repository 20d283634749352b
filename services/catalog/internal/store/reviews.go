package store

import (
	"context"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/review"
)

// Due lists the published records that are due for a factual review by until.
func (s *Store) Due(ctx context.Context, until time.Time) (api.DueList, error) {
	now := s.now().UTC()
	list := api.DueList{GeneratedAt: now, Until: until.UTC(), Records: []api.DueRecord{}}
	tx := s.db.WithContext(ctx)
	for last := ""; ; {
		var rows []*listingRow
		err := tx.Where("visibility = ? AND id > ?", listingfile.Published, last).Order("id").Limit(batch).Find(&rows).Error
		if err != nil {
			return api.DueList{}, database.Outage(err)
		}
		records, err := s.records(ctx, rows)
		if err != nil {
			return api.DueList{}, err
		}
		for _, r := range records {
			if due, ok := r.Due(now, until); ok {
				list.Records = append(list.Records, due)
			}
		}
		if len(rows) < batch {
			list.Sort()
			return list, nil
		}
		last = rows[len(rows)-1].ID
	}
}

// Sheet returns what a reviewer needs for a review of the listing, or problem.NotFound.
func (s *Store) Sheet(ctx context.Context, id string) (api.ReviewSheet, error) {
	var rows []*listingRow
	if api.ValidSlug(id) { // Postgres returns an error for some strings
		if err := s.db.WithContext(ctx).Where("id = ?", id).Find(&rows).Error; err != nil {
			return api.ReviewSheet{}, database.Outage(err)
		}
	}
	if len(rows) == 0 {
		return api.ReviewSheet{}, problem.New(problem.NotFound, "There is no listing with this id.")
	}
	records, err := s.records(ctx, rows)
	if err != nil {
		return api.ReviewSheet{}, err
	}
	r, now := records[0], s.now().UTC()
	return api.ReviewSheet{
		GeneratedAt: now, LastEventID: r.Summary.LastEventID, Visibility: string(r.Entry.Visibility), Record: r.Entry.Public(r.Summary, now),
		OwnFacts: r.Entry.Facts, ReviewedFacts: r.Summary.Facts, Status: r.Summary.StatusAt(r.Entry.ChangedAt, now),
		Reasons: append([]api.DueReason{}, r.ReasonsAt(now)...), Edits: r.EditsSinceReview(),
	}, nil
}

// records adds the summaries and the material edits to the listings of rows.
func (s *Store) records(ctx context.Context, rows []*listingRow) ([]review.Record, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	known, err := summaries(s.db.WithContext(ctx), ids)
	if err != nil {
		return nil, err
	}
	edits, err := materialEdits(s.db.WithContext(ctx), ids)
	if err != nil {
		return nil, database.Outage(err)
	}
	records := make([]review.Record, len(rows))
	for i, row := range rows {
		entry, err := row.entry(nil)
		if err != nil {
			return nil, err
		}
		records[i] = review.Record{Entry: entry, Summary: known[row.ID], Edits: edits[row.ID]}
	}
	return records, nil
}

func materialEdits(tx *gorm.DB, ids []string) (map[string][]api.ListingEdit, error) {
	var rows []changeRow
	if err := tx.Where("material AND listing_id IN ?", ids).Order("id").Find(&rows).Error; err != nil {
		return nil, err
	}
	all := map[string][]api.ListingEdit{}
	for _, row := range rows {
		all[row.ListingID] = append(all[row.ListingID],
			api.ListingEdit{At: database.FromMicros(row.At), Actor: row.Actor, Fields: strings.Split(row.Fields, ",")})
	}
	return all, nil
}
