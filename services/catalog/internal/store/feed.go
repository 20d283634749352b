package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/peer"
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

// Cursor returns the position in history's feed up to which summaries have been saved.
func (s *Store) Cursor(ctx context.Context) (position int64, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT position FROM feed_cursor WHERE id = 1").Scan(&position).Error
	return position, database.Outage(err)
}

// HistoryMarks keeps the high-water mark of history. If an operator has accepted a loss of history, the copy of its summaries starts over. They
// stay until history's replace them: their sequence is 0, which no event has.
func (s *Store) HistoryMarks(log *slog.Logger) highwater.Row {
	return highwater.Row{Store: peer.History, DB: s.db, Log: log, StartOver: func(ctx context.Context, replace func(*gorm.DB) (bool, error)) error {
		return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
			replaced, err := replace(tx)
			if err != nil || !replaced {
				return err
			}
			*next++ // commit without a changed listing
			return errors.Join(tx.Exec("UPDATE summaries SET sequence = 0").Error, tx.Exec("UPDATE feed_cursor SET position = 0 WHERE id = 1").Error)
		})
	}}
}

// Prune deletes the summaries that history no longer has. Call it when the copy is complete.
func (s *Store) Prune(ctx context.Context) error {
	if startedOver, err := highwater.StartedOver(s.db.WithContext(ctx), peer.History); err != nil || !startedOver {
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
		return highwater.EndCopyOver(tx, peer.History)
	})
}

// SaveSummaries saves the summaries and moves the cursor past them, in one transaction. It ignores summaries that are not newer than the
// saved ones, so several replicas can read the same feed, and any part of it can be read again.
func (s *Store) SaveSummaries(ctx context.Context, summaries []api.EncodedSummary) error {
	newest := map[string]api.EncodedSummary{}
	var last api.EncodedSummary
	for _, summary := range summaries {
		if summary.Sequence > newest[summary.Slug].Sequence {
			newest[summary.Slug] = summary
		}
		if summary.Sequence > last.Sequence {
			last = summary
		}
	}
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
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
		moved := tx.Exec("UPDATE feed_cursor SET position = ? WHERE id = 1 AND position < ?", last.Sequence, last.Sequence)
		if moved.Error != nil {
			return moved.Error
		}
		if moved.RowsAffected > 0 {
			*next++ // commit the cursor even if no listing changed
		}
		return nil
	})
}

// SaveSummary saves one summary ahead of the feed. It ignores a summary that is not newer than the saved one.
func (s *Store) SaveSummary(ctx context.Context, summary api.EncodedSummary) error {
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
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
		summary, old := newest[slug], known[slug]
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
