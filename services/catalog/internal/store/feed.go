package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
)

// Listings returns the states of up to limit listings with a sequence above after, in that order.
func (s *Store) Listings(ctx context.Context, after int64, limit int) ([]api.ListingState, error) {
	var rows []listingRow
	err := s.db.WithContext(ctx).Where("sequence > ?", after).Order("sequence").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	states := make([]api.ListingState, len(rows))
	for i, row := range rows {
		var l struct {
			ApplicationURL string `json:"applicationUrl"`
		}
		if err := json.Unmarshal([]byte(row.Document), &l); err != nil {
			return nil, fmt.Errorf("decoding listing %s: %w", row.ID, err)
		}
		states[i] = api.ListingState{
			Sequence: row.Sequence, ID: row.ID, Published: row.Visibility == listingfile.Published, ApplicationURL: l.ApplicationURL,
		}
	}
	return states, nil
}

type summaryRow struct {
	ListingID string `gorm:"primaryKey"`
	Sequence  int64
	Document  string
}

func (summaryRow) TableName() string { return "summaries" }

// Cursor returns the position in history's feed up to which summaries have been saved.
func (s *Store) Cursor(ctx context.Context) (int64, error) {
	var value int64
	err := s.db.WithContext(ctx).Raw("SELECT position FROM feed_cursor WHERE id = 1").Scan(&value).Error
	return value, database.Outage(err)
}

// SaveSummaries saves the summaries and moves the cursor past them, in one transaction. It ignores summaries that are not newer than the
// saved ones, so several replicas can read the same feed, and any part of it can be read again.
func (s *Store) SaveSummaries(ctx context.Context, summaries []api.EncodedSummary) error {
	newest := map[string]api.EncodedSummary{}
	var cursor int64
	for _, summary := range summaries {
		if summary.Sequence > newest[summary.Slug].Sequence {
			newest[summary.Slug] = summary
		}
		cursor = max(cursor, summary.Sequence)
	}
	return s.change(ctx, func(tx *gorm.DB, next *int64) error {
		slugs := make([]string, 0, len(newest))
		for slug := range newest {
			slugs = append(slugs, slug)
		}
		slices.Sort(slugs)
		for part := range slices.Chunk(slugs, batch) {
			if err := saveSummaries(tx, next, part, newest); err != nil {
				return err
			}
		}
		moved := tx.Exec("UPDATE feed_cursor SET position = ? WHERE id = 1 AND position < ?", cursor, cursor)
		if moved.RowsAffected > 0 {
			*next++ // commit the cursor even if no listing changed
		}
		return moved.Error
	})
}

// SaveSummary saves one summary ahead of the feed. It ignores a summary that is not newer than the saved one.
func (s *Store) SaveSummary(ctx context.Context, summary api.EncodedSummary) error {
	return s.change(ctx, func(tx *gorm.DB, next *int64) error {
		return saveSummaries(tx, next, []string{summary.Slug}, map[string]api.EncodedSummary{summary.Slug: summary})
	})
}

func saveSummaries(tx *gorm.DB, next *int64, slugs []string, newest map[string]api.EncodedSummary) error {
	var saved []summaryRow
	if err := tx.Where("listing_id IN ?", slugs).Find(&saved).Error; err != nil {
		return err
	}
	known := make(map[string]summaryRow, len(saved))
	for _, row := range saved {
		known[row.ListingID] = row
	}
	var rows []summaryRow
	var sequences []any // listing id, new sequence, ...
	for _, slug := range slugs {
		summary := newest[slug]
		// A summary with the same sequence differs if history derived it again by newer rules.
		if old := known[slug]; summary.Sequence < old.Sequence || summary.Sequence == old.Sequence && summary.JSON == old.Document {
			continue
		}
		*next++
		rows = append(rows, summaryRow{slug, summary.Sequence, summary.JSON})
		sequences = append(sequences, slug, *next)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(rows, batch).Error; err != nil {
		return err
	}
	// Both dialects name the columns of VALUES column1 and column2.
	values := strings.TrimSuffix(strings.Repeat("(?, CAST(? AS bigint)),", len(rows)), ",")
	return tx.Exec("UPDATE listings SET sequence = v.column2 FROM (VALUES "+values+") AS v WHERE listings.id = v.column1", sequences...).Error
}
