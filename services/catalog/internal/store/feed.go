package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
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
			Company        struct{ Website string }
			ApplicationURL string
			Sources        []struct{ URL string }
		}
		if err := listing.Documents.UnmarshalFromString(row.Document, &l); err != nil {
			return nil, fmt.Errorf("decoding listing %s: %w", row.ID, err)
		}
		pages := []string{l.ApplicationURL}
		for _, u := range append([]struct{ URL string }{{l.Company.Website}}, l.Sources...) {
			if u.URL != "" && !slices.Contains(pages, u.URL) {
				pages = append(pages, u.URL)
			}
		}
		states[i] = api.ListingState{
			Sequence: row.Sequence, ID: row.ID, Published: row.Visibility == listingfile.Published, ApplicationURL: l.ApplicationURL, Pages: pages,
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

// Cursor returns the position of the copy of history's summaries.
func (s *Store) Cursor(ctx context.Context) (c feed.Cursor, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT position, mark, restarted FROM feed_cursor WHERE id = 1").Scan(&c).Error
	return c, database.Outage(err)
}

// StartOver moves the cursor to the beginning, unless it is no longer from. The summaries stay until history's replace them: their sequence is
// 0, which no event has.
func (s *Store) StartOver(ctx context.Context, from feed.Cursor) error {
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		moved, err := moveCursor(tx, from, feed.Cursor{Restarted: true})
		if err != nil || !moved {
			return err
		}
		*next++ // commit without a changed listing
		return tx.Exec("UPDATE summaries SET sequence = 0").Error
	})
}

// moveCursor reports whether the cursor was from.
func moveCursor(tx *gorm.DB, from, to feed.Cursor) (moved bool, err error) {
	done := tx.Exec("UPDATE feed_cursor SET position = ?, mark = ?, restarted = ? WHERE id = 1 AND position = ? AND mark = ? AND restarted = ?",
		to.Position, to.Mark, to.Restarted, from.Position, from.Mark, from.Restarted)
	return done.RowsAffected > 0, done.Error
}

// Prune deletes the summaries that history no longer has. Call it when the copy is complete.
func (s *Store) Prune(ctx context.Context) error {
	cursor, err := s.Cursor(ctx)
	if err != nil || !cursor.Restarted {
		return err
	}
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		*next++
		var gone []string
		if err := tx.Raw("DELETE FROM summaries WHERE sequence = 0 RETURNING listing_id").Scan(&gone).Error; err != nil {
			return err
		}
		for part := range slices.Chunk(gone, batch) {
			var sequences []any
			for _, id := range part {
				*next++
				sequences = append(sequences, id, *next)
			}
			if err := setSequences(tx, sequences); err != nil {
				return err
			}
		}
		return tx.Exec("UPDATE feed_cursor SET restarted = false WHERE id = 1").Error
	})
}

// SaveSummaries saves the summaries and moves the cursor, in one transaction, unless the cursor is no longer from. It ignores summaries that are
// not newer than the saved ones, so any part of the feed can be read again.
func (s *Store) SaveSummaries(ctx context.Context, from feed.Cursor, summaries []api.EncodedSummary, to feed.Cursor) error {
	newest := map[string]api.EncodedSummary{}
	for _, summary := range summaries {
		if summary.Sequence > newest[summary.Slug].Sequence {
			newest[summary.Slug] = summary
		}
	}
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		moved, err := moveCursor(tx, from, to)
		if err != nil || !moved {
			return err
		}
		if from != to {
			*next++ // commit the cursor even if no listing changed
		}
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
		return nil
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
		summary, old := newest[slug], known[slug]
		// A summary with the same sequence differs if history derived it again by newer rules.
		if summary.Sequence < old.Sequence || summary.Sequence == old.Sequence && summary.JSON == old.Document {
			continue
		}
		rows = append(rows, summaryRow{slug, summary.Sequence, summary.JSON})
		if summary.JSON != old.Document { // equal if the copy started over
			*next++
			sequences = append(sequences, slug, *next)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := database.Insert(tx, rows, "listing_id"); err != nil {
		return err
	}
	return setSequences(tx, sequences)
}

// setSequences sets the sequences of listings and derives their index rows. sequences has the id and the new sequence of each.
func setSequences(tx *gorm.DB, sequences []any) error {
	if len(sequences) == 0 {
		return nil
	}
	// Both dialects name the columns of VALUES column1 and column2.
	values := strings.TrimSuffix(strings.Repeat("(?, CAST(? AS bigint)),", len(sequences)/2), ",")
	var rows []*listingRow
	err := tx.Raw("UPDATE listings SET sequence = v.column2 FROM (VALUES "+values+") AS v WHERE listings.id = v.column1 RETURNING *",
		sequences...).Scan(&rows).Error
	if err != nil {
		return err
	}
	return saveIndex(tx, rows)
}
