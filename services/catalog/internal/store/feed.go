package store

import (
	"context"
	"fmt"
	"maps"
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
			Sequence: row.Sequence, ID: row.ID, Published: row.Visibility == listingfile.Published,
			ApplicationURL: l.ApplicationURL, Pages: pages,
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
func (s *Store) Cursor(ctx context.Context) (feed.Cursor, error) {
	c, err := feed.ReadCursor(s.db.WithContext(ctx))
	return c, database.Outage(err)
}

// StartOver implements feed.Store. The summaries stay until history's replace them: their sequence
// is 0, which no event has.
func (s *Store) StartOver(ctx context.Context, from, to feed.Cursor) error {
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		moved, err := from.Move(tx, to)
		if err != nil || !moved {
			return err
		}
		*next++ // commit without a changed listing
		return tx.Exec("UPDATE summaries SET sequence = 0").Error
	})
}

// Prune implements feed.Store. It deletes the summaries that history no longer has.
func (s *Store) Prune(ctx context.Context, from, to feed.Cursor) error {
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		moved, err := from.Move(tx, to)
		if err != nil || !moved {
			return err
		}
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
		return nil
	})
}

// Save implements feed.Store. It ignores summaries that are not newer than the saved ones, so any
// part of the feed can be read again.
func (s *Store) Save(ctx context.Context, from feed.Cursor, summaries []api.EncodedSummary, to feed.Cursor) error {
	newest := map[string]api.EncodedSummary{}
	for _, summary := range summaries {
		if summary.Sequence > newest[summary.Slug].Sequence {
			newest[summary.Slug] = summary
		}
	}
	return s.change(ctx, changeTimeout, func(tx *gorm.DB, next *int64) error {
		moved, err := from.Move(tx, to)
		if err != nil || !moved {
			return err
		}
		if from != to {
			*next++ // commit the cursor even if no listing changed
		}
		for part := range slices.Chunk(slices.Sorted(maps.Keys(newest)), batch) {
			if err := saveSummaries(tx, next, part, newest); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveSummaries(tx *gorm.DB, next *int64, slugs []string, newest map[string]api.EncodedSummary) error {
	known, err := rowsByID(tx, "listing_id", slugs, func(r summaryRow) string { return r.ListingID })
	if err != nil {
		return err
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
	entries, known := make([]listing.Entry, len(rows)), map[string]api.Summary{}
	for i, row := range rows {
		c := changes[slices.Index(ids, row.ID)]
		e, err := row.entry(nil)
		if err != nil {
			return err
		}
		before, err := decodeSummary(c.before)
		if err != nil {
			return err
		}
		after, err := decodeSummary(c.after)
		if err != nil {
			return err
		}
		same, err := listing.SameForConsumers(&e, before, e, after)
		if err != nil {
			return err
		}
		*next++
		if row.Sequence = *next; !same {
			row.PublicSequence = *next
		}
		entries[i], known[row.ID] = e, after
		values = append(values, row.ID, row.Sequence, row.PublicSequence)
	}
	// Both dialects name the columns of VALUES column1, column2 and column3.
	list := strings.TrimSuffix(strings.Repeat("(?, CAST(? AS bigint), CAST(? AS bigint)),", len(rows)), ",")
	err := tx.Exec(`UPDATE listings SET sequence = v.column2, public_sequence = v.column3
		FROM (VALUES `+list+`) AS v WHERE listings.id = v.column1`,
		values...).Error
	if err != nil {
		return err
	}
	return saveIndex(tx, entries, ids, known)
}

func decodeSummary(text string) (s api.Summary, err error) {
	if text != "" {
		err = listing.Documents.UnmarshalFromString(text, &s)
	}
	return s, err
}

// summaries returns the summaries of the listings with the ids, by id. Listings without a summary
// are not in the map.
func summaries(tx *gorm.DB, ids []string) (map[string]api.Summary, error) {
	rows, err := rowsByID(tx, "listing_id", ids, func(r summaryRow) string { return r.ListingID })
	if err != nil {
		return nil, database.Outage(err)
	}
	all := make(map[string]api.Summary, len(rows))
	for id, row := range rows {
		if all[id], err = decodeSummary(row.Document); err != nil {
			return nil, err
		}
	}
	return all, nil
}
