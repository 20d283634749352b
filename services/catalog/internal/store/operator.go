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
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Import applies a file in which nothing was refused, whole or not at all, and counts what it did. Importing the same file
// again changes nothing.
func (s *Store) Import(ctx context.Context, actor string, lines []listingfile.Line) (api.ImportReport, error) {
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

func (w *writer) importPart(lines []listingfile.Line, report *api.ImportReport) error {
	acts, err := plan(w.tx, lines, w.now)
	if err != nil {
		return err
	}
	for _, act := range acts {
		if act.old == nil {
			report.Created++
			if err := w.save(act.entry, w.at); err != nil {
				return err
			}
			w.record(act.entry.ID, imported, nil, false)
			if act.change.Published {
				w.record(act.entry.ID, published, nil, false)
			}
			w.note(act.entry.ID, act.entry.Curation)
			continue
		}
		if len(act.change.Fields) == 0 {
			report.Unchanged++
			continue
		}
		report.Updated++
		if err := w.save(act.entry, act.createdAt); err != nil {
			return err
		}
		w.record(act.entry.ID, updated, act.change.Fields, act.change.Material)
		if act.change.Published {
			w.record(act.entry.ID, published, nil, false)
		}
		if slices.Contains(act.change.Fields, "curation") {
			w.note(act.entry.ID, act.entry.Curation)
		}
	}
	return w.flush()
}

// act is what an import does to one listing.
type act struct {
	old       *listing.Entry // nil: the listing is new
	createdAt int64
	entry     listing.Entry // afterwards
	change    listing.Change
}

// plan tells what an import of the lines does at now, in their order.
func plan(tx *gorm.DB, lines []listingfile.Line, now time.Time) ([]act, error) {
	ids := make([]string, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	known, notes, err := find(tx, ids)
	if err != nil {
		return nil, err
	}
	acts := make([]act, len(lines))
	for i, line := range lines {
		row, exists := known[line.ID]
		if !exists {
			entry := listing.Create(line, now)
			acts[i] = act{entry: entry, change: listing.Change{Published: entry.Visibility == listingfile.Published}}
			continue
		}
		old, err := row.entry(notes[line.ID])
		if err != nil {
			return nil, err
		}
		entry, change := old.Update(line, now)
		acts[i] = act{&old, row.CreatedAt, entry, change}
	}
	return acts, nil
}

// Publish makes the listings of those ids visible, whole or not at all: an id that names none is refused. A withdrawn listing may be
// published again. Line in a refusal is the place among the ids.
func (s *Store) Publish(ctx context.Context, actor string, ids []string) (api.ImportReport, error) {
	return s.show(ctx, actor, ids, listingfile.Published)
}

// Withdraw takes the listings of those ids down, or turns candidates away; otherwise as Publish.
func (s *Store) Withdraw(ctx context.Context, actor string, ids []string) (api.ImportReport, error) {
	return s.show(ctx, actor, ids, listingfile.Withdrawn)
}

func (s *Store) show(ctx context.Context, actor string, ids []string, as listingfile.Visibility) (api.ImportReport, error) {
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
				if !exists && len(report.Refused) == listingfile.MaxReported {
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
			err := tx.Where("visibility = ?", listingfile.Private).Order("id").Limit(batch).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			for _, row := range rows {
				w.show(row, listingfile.Published, &report)
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
func (w *writer) show(row *listingRow, as listingfile.Visibility, report *api.ImportReport) {
	if row.Visibility == as {
		report.Unchanged++
		return
	}
	report.Updated++
	fields, what := []string{"visibility"}, withdrawn
	if row.Visibility = as; as == listingfile.Published {
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

func (w *writer) note(id string, c *listingfile.Curation) {
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
