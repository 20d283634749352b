package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/review"
)

// Sheet returns the listing's part of its review sheet, and the part that history has, or
// problem.NotFound. It uses the summary of history, which is newer than the catalog's copy.
func (s *Store) Sheet(ctx context.Context, id string, history api.ReviewHistory) (api.ReviewSheet, error) {
	tx := s.db.WithContext(ctx)
	l, err := findListing(tx, id)
	if err != nil {
		return api.ReviewSheet{}, err
	}
	edits, err := materialEdits(tx, []string{id})
	if err != nil {
		return api.ReviewSheet{}, database.Outage(err)
	}
	entry := l.entry
	r, now := review.Record{Entry: entry, Summary: history.Summary, Edits: edits[id]}, s.now().UTC()
	sheet := api.ReviewSheet{
		GeneratedAt: now, LastEventID: r.Summary.LastEventID, Visibility: string(entry.Visibility),
		Record:        entry.Public(r.Summary, now),
		ReviewedFacts: r.Summary.Facts, Status: r.Summary.StatusAt(entry.ChangedAt, now),
		Reasons: append([]api.DueReason{}, review.ReasonsAt(r.Reasons(), now)...), Edits: r.EditsSinceReview(),
		PreviousFacts: history.PreviousFacts, Events: history.Events, Opinion: history.Opinion,
		OpinionFacts: history.OpinionFacts,
		Evidence:     history.Evidence, Readings: append([]api.QuoteReading{}, history.Readings...),
		Suggestions: append([]api.Quote{}, history.Suggestions...),
	}
	sheet.Evidence.Complete()
	if entry.Curation != nil {
		sheet.Curation = *entry.Curation
	}
	return sheet, nil
}

// materialEdits returns the edits with material changes of the listings with the ids, by id.
func materialEdits(tx *gorm.DB, ids []string) (map[string][]api.ListingEdit, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	// By the columns of their index: in the order of the primary key, Postgres would read all
	// changes to find a few.
	var rows []changeRow
	if err := tx.Where("material AND listing_id IN ?", ids).Order("listing_id, id").Find(&rows).Error; err != nil {
		return nil, err
	}
	all := map[string][]api.ListingEdit{}
	for _, row := range rows {
		edit := api.ListingEdit{At: database.FromMicros(row.At), Actor: row.Actor,
			Fields: strings.Split(row.Fields, ",")}
		if row.Differences != "" {
			if err := json.Unmarshal([]byte(row.Differences), &edit.Changes); err != nil {
				return nil, fmt.Errorf("decoding a change of listing %s: %w", row.ListingID, err)
			}
		}
		all[row.ListingID] = append(all[row.ListingID], edit)
	}
	return all, nil
}

const maxChanges = 100 // in a detail

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
