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
		var gone []summaryRow
		if err := tx.Raw("DELETE FROM summaries WHERE sequence = 0 RETURNING *").Scan(&gone).Error; err != nil {
			return err
		}
		for part := range slices.Chunk(gone, batch) {
			changes := make([]summaryChange, len(part))
			for i, row := range part {
				changes[i] = summaryChange{id: row.ListingID, before: row.Document}
			}
			if err := setSequences(tx, next, changes); err != nil {
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
	var changes []summaryChange
	for _, slug := range slugs {
		summary, old := newest[slug], known[slug]
		if summary.Sequence < old.Sequence || summary.Sequence == old.Sequence && summary.JSON == old.Document {
			continue
		}
		rows = append(rows, summaryRow{slug, summary.Sequence, summary.JSON})
		if summary.JSON != old.Document { // equal if the copy started over
			changes = append(changes, summaryChange{slug, old.Document, summary.JSON})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := database.Insert(tx, rows, "listing_id"); err != nil {
		return err
	}
	return setSequences(tx, next, changes)
}

// summaryChange is a change of a listing's summary. An empty text stands for none.
type summaryChange struct{ id, before, after string }

// setSequences gives the listings of changed summaries new sequences, and derives their index rows.
func setSequences(tx *gorm.DB, next *int64, changes []summaryChange) error {
	ids := make([]string, len(changes))
	for i, c := range changes {
		ids[i] = c.id
	}
	var rows []*listingRow
	if len(ids) > 0 {
		if err := tx.Where("id IN ?", ids).Order("id").Find(&rows).Error; err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	values := make([]any, 0, 3*len(rows))
	for _, row := range rows {
		c := changes[slices.Index(ids, row.ID)]
		same, err := c.sameForConsumers(row)
		if err != nil {
			return err
		}
		*next++
		if row.Sequence = *next; !same {
			row.PublicSequence = *next
		}
		values = append(values, row.ID, row.Sequence, row.PublicSequence)
	}
	// Both dialects name the columns of VALUES column1, column2 and column3.
	list := strings.TrimSuffix(strings.Repeat("(?, CAST(? AS bigint), CAST(? AS bigint)),", len(rows)), ",")
	err := tx.Exec("UPDATE listings SET sequence = v.column2, public_sequence = v.column3 FROM (VALUES "+list+") AS v WHERE listings.id = v.column1",
		values...).Error
	if err != nil {
		return err
	}
	return saveIndex(tx, rows)
}

// sameForConsumers reports whether consumers see no difference in the listing of row.
func (c summaryChange) sameForConsumers(row *listingRow) (bool, error) {
	if row.Visibility != listingfile.Published {
		return true, nil
	}
	e, err := row.entry(nil)
	if err != nil {
		return false, err
	}
	before, err := decodeSummary(c.before)
	if err != nil {
		return false, err
	}
	after, err := decodeSummary(c.after)
	if err != nil {
		return false, err
	}
	return listing.SameForConsumers(&e, before, e, after)
}

func decodeSummary(text string) (s api.Summary, err error) {
	if text != "" {
		err = listing.Documents.UnmarshalFromString(text, &s)
	}
	return s, err
}
