package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

// Import applies a file in which nothing was refused, whole or not at all, and counts what it did. Importing the same file
// again changes nothing.
func (s *Store) Import(ctx context.Context, actor string, lines []listing.Line) (api.ImportReport, error) {
	var report api.ImportReport
	err := s.change(ctx, func(tx *gorm.DB, next *int64) error {
		report = api.ImportReport{Applied: true, Refused: []api.Refusal{}}
		w := s.writer(tx, next, actor)
		for part := range slices.Chunk(lines, batch) {
			if err := w.importPart(part, &report); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

func (w *writer) importPart(lines []listing.Line, report *api.ImportReport) error {
	ids := make([]string, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	known, notes, err := find(w.tx, ids)
	if err != nil {
		return err
	}
	for _, line := range lines {
		row, exists := known[line.ID]
		if !exists {
			entry := line.Create(w.now)
			report.Created++
			if err := w.save(entry, w.at); err != nil {
				return err
			}
			w.record(line.ID, imported, nil, false)
			if entry.Visibility == listing.Published {
				w.record(line.ID, published, nil, false)
			}
			w.note(line.ID, entry.Curation)
			continue
		}
		old, err := row.entry(notes[line.ID])
		if err != nil {
			return err
		}
		entry, change := line.Update(old, w.now)
		if len(change.Fields) == 0 {
			report.Unchanged++
			continue
		}
		report.Updated++
		if err := w.save(entry, row.CreatedAt); err != nil {
			return err
		}
		w.record(line.ID, updated, change.Fields, change.Material)
		if change.Published {
			w.record(line.ID, published, nil, false)
		}
		if slices.Contains(change.Fields, "curation") {
			w.note(line.ID, entry.Curation)
		}
	}
	return w.flush()
}

// Publish makes the listings of those ids visible, whole or not at all: an id that names none is refused. A withdrawn listing may be
// published again. Line in a refusal is the place among the ids.
func (s *Store) Publish(ctx context.Context, actor string, ids []string) (api.ImportReport, error) {
	return s.show(ctx, actor, ids, listing.Published)
}

// Withdraw takes the listings of those ids down, or turns candidates away; otherwise as Publish.
func (s *Store) Withdraw(ctx context.Context, actor string, ids []string) (api.ImportReport, error) {
	return s.show(ctx, actor, ids, listing.Withdrawn)
}

func (s *Store) show(ctx context.Context, actor string, ids []string, as listing.Visibility) (api.ImportReport, error) {
	var report api.ImportReport
	err := s.change(ctx, func(tx *gorm.DB, next *int64) error {
		report = api.ImportReport{Applied: true, Refused: []api.Refusal{}}
		w := s.writer(tx, next, actor)
		place := 0
		for part := range slices.Chunk(ids, batch) {
			// What no id can be is asked nobody: Postgres knows texts that it fails at.
			known, _, err := find(tx, slices.DeleteFunc(slices.Clone(part), func(id string) bool { return !api.ValidSlug(id) }))
			if err != nil {
				return err
			}
			for _, id := range part {
				place++
				row, exists := known[id]
				if !exists && len(report.Refused) == listing.MaxReported {
					report.Omitted++
					continue
				}
				if !exists {
					report.Refused = append(report.Refused, api.Refusal{
						Line: place, ID: id, Problems: api.Problems{"id: there is no such listing"},
					})
					continue
				}
				w.show(row, as, &report)
			}
			if err := w.flush(); err != nil {
				return err
			}
		}
		if len(report.Refused) > 0 {
			report = api.ImportReport{Refused: report.Refused, Omitted: report.Omitted}
			return errNothing
		}
		return nil
	})
	return report, err
}

// PublishAll publishes every candidate. What was withdrawn stays withdrawn.
func (s *Store) PublishAll(ctx context.Context, actor string) (api.ImportReport, error) {
	var report api.ImportReport
	err := s.change(ctx, func(tx *gorm.DB, next *int64) error {
		report = api.ImportReport{Applied: true, Refused: []api.Refusal{}}
		w := s.writer(tx, next, actor)
		for {
			var rows []*listingRow
			err := tx.Where("visibility = ?", listing.Private).Order("id").Limit(batch).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			for _, row := range rows {
				w.show(row, listing.Published, &report)
			}
			if err := w.flush(); err != nil {
				return err
			}
		}
	})
	return report, err
}

// Export yields every listing, private and withdrawn ones too, by id. An error ends it.
func (s *Store) Export(ctx context.Context) iter.Seq2[listing.Entry, error] {
	return func(yield func(listing.Entry, error) bool) {
		for last := ""; ; {
			part, err := s.exportPart(ctx, last)
			if err != nil {
				yield(listing.Entry{}, database.Outage(err))
				return
			}
			for _, entry := range part {
				if last = entry.ID; !yield(entry, nil) {
					return
				}
			}
			if len(part) < batch {
				return
			}
		}
	}
}

func (s *Store) exportPart(ctx context.Context, after string) ([]listing.Entry, error) {
	var rows []*listingRow
	tx := s.db.WithContext(ctx)
	if err := tx.Where("id > ?", after).Order("id").Limit(batch).Find(&rows).Error; err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	notes, err := curations(tx, ids)
	entries := make([]listing.Entry, len(rows))
	for i, row := range rows {
		if err == nil {
			entries[i], err = row.entry(notes[row.ID])
		}
	}
	return entries, err
}

func find(tx *gorm.DB, ids []string) (map[string]*listingRow, map[string]*curationRow, error) {
	var rows []*listingRow
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, nil, err
	}
	known := make(map[string]*listingRow, len(rows))
	for _, row := range rows {
		known[row.ID] = row
	}
	notes, err := curations(tx, ids)
	return known, notes, err
}

func curations(tx *gorm.DB, ids []string) (map[string]*curationRow, error) {
	var rows []*curationRow
	if err := tx.Where("listing_id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	notes := make(map[string]*curationRow, len(rows))
	for _, row := range rows {
		notes[row.ListingID] = row
	}
	return notes, nil
}

// writer collects the rows of one batch, which flush writes in a few statements.
type writer struct {
	tx    *gorm.DB
	next  *int64
	actor string
	now   time.Time
	at    int64 // now, as it is stored

	listings []*listingRow
	changes  []changeRow
	noted    []curationRow
	unnoted  []string
}

func (s *Store) writer(tx *gorm.DB, next *int64, actor string) *writer {
	now := s.now().UTC().Truncate(time.Microsecond)
	return &writer{tx: tx, next: next, actor: actor, now: now, at: *toMicros(&now)}
}

func (w *writer) save(e listing.Entry, createdAt int64) error {
	row, err := rowOf(e)
	if err != nil {
		return fmt.Errorf("listing %s: %w", e.ID, err)
	}
	row.CreatedAt = createdAt
	w.put(&row)
	return nil
}

func (w *writer) put(row *listingRow) {
	*w.next++
	row.Sequence, row.UpdatedAt = *w.next, w.at
	w.listings = append(w.listings, row)
}

// show gives a row its visibility and records it, unless it has it.
func (w *writer) show(row *listingRow, as listing.Visibility, report *api.ImportReport) {
	if row.Visibility == as {
		report.Unchanged++
		return
	}
	report.Updated++
	fields, what := []string{"visibility"}, withdrawn
	if row.Visibility = as; as == listing.Published {
		what = published
		if row.PublishedAt == nil {
			row.PublishedAt, fields = &w.at, append(fields, "publishedAt")
		}
	}
	w.put(row)
	w.record(row.ID, what, fields, false)
}

func (w *writer) record(id, what string, fields []string, material bool) {
	w.changes = append(w.changes, changeRow{
		ListingID: id, At: w.at, Actor: w.actor, What: what, Fields: strings.Join(fields, ","), Material: material,
	})
}

func (w *writer) note(id string, c *listing.Curation) {
	if c == nil {
		w.unnoted = append(w.unnoted, id)
		return
	}
	w.noted = append(w.noted, curationRow{ListingID: id, Contact: c.Contact, Notes: c.Notes})
}

func (w *writer) flush() error {
	upsert := clause.OnConflict{
		Columns: []clause.Column{{Name: "id"}},
		DoUpdates: clause.AssignmentColumns(
			[]string{"visibility", "document", "published_at", "changed_at", "sequence", "updated_at"}),
	}
	if len(w.listings) > 0 {
		if err := w.tx.Clauses(upsert).CreateInBatches(w.listings, batch).Error; err != nil {
			return err
		}
	}
	if len(w.unnoted) > 0 {
		if err := w.tx.Where("listing_id IN ?", w.unnoted).Delete(&curationRow{}).Error; err != nil {
			return err
		}
	}
	if len(w.noted) > 0 {
		if err := w.tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(w.noted, batch).Error; err != nil {
			return err
		}
	}
	if len(w.changes) > 0 {
		if err := w.tx.CreateInBatches(w.changes, batch).Error; err != nil {
			return err
		}
	}
	w.listings, w.changes, w.noted, w.unnoted = nil, nil, nil, nil
	return nil
}
