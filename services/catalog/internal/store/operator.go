package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

// Lines passes the valid lines of a file to add. It returns the error of add or of the file.
type Lines = func(add func(listingfile.Line) error) error

// importTimeout is the time limit of an import, with the time in which the rest of a large file
// arrives. It applies instead of changeTimeout.
const importTimeout = api.FileTimeout - time.Minute

// batchSize is the number of lines of a file in memory.
const batchSize = 200

// Import applies the lines of a file in one transaction while they arrive, and returns the counts.
// It rejects a line that would remove the last source of a published listing; then nothing is
// changed. Importing the same file again changes nothing. An error of lines undoes the import and
// is returned unchanged.
//
// If ask is set, an import that would publish several listings, one of them never reviewed, changes
// nothing; the report counts them.
func (s *Store) Import(ctx context.Context, actor string, lines Lines, ask bool) (report api.ImportReport, err error) {
	return s.apply(ctx, actor, importTimeout, false, func(w *writer, report *api.ImportReport) error {
		err := inBatches(lines, func(batch []listingfile.Line) error { return w.importBatch(batch, report) })
		if err == nil && ask && len(report.Rejected) == 0 && report.Published > 1 && report.NeverReviewed > 0 {
			report.Applied, err = false, errNoChange
		}
		return err
	})
}

// inBatches passes the lines to use, up to batchSize at a time.
func inBatches(lines Lines, use func([]listingfile.Line) error) error {
	var batch []listingfile.Line
	err := lines(func(l listingfile.Line) error {
		if batch = append(batch, l); len(batch) < batchSize {
			return nil
		}
		full := batch
		batch = nil
		return use(full)
	})
	if err == nil && len(batch) > 0 {
		err = use(batch)
	}
	return err
}

// apply runs f in one transaction, and rolls it back if f reports a rejected line or if dry is set.
func (s *Store) apply(
	ctx context.Context, actor string, limit time.Duration, dry bool, f func(w *writer, report *api.ImportReport) error,
) (report api.ImportReport, err error) {
	err = s.change(ctx, limit, func(tx *gorm.DB, next *int64) error {
		report = api.ImportReport{Applied: true, Rejected: []api.RejectedLine{}}
		w := s.writer(tx, next, actor)
		if err := f(w, &report); err != nil {
			return err
		}
		switch {
		case len(report.Rejected) > 0:
			report = onlyRejected(report)
			return errNoChange
		case dry:
			report.Applied = false
			return errNoChange
		}
		return nil
	})
	return report, err
}

func onlyRejected(r api.ImportReport) api.ImportReport {
	return api.ImportReport{Rejected: r.Rejected, Omitted: r.Omitted}
}

// appendRejection adds r to the report, or counts it as omitted if the report is full.
func appendRejection(report *api.ImportReport, r api.RejectedLine) {
	if len(report.Rejected) == api.MaxReported {
		report.Omitted++
		return
	}
	report.Rejected = append(report.Rejected, r)
}

func (w *writer) importBatch(lines []listingfile.Line, report *api.ImportReport) error {
	steps, err := w.plan(lines, report)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if w.inReview {
			step.entry.ChangedAt, step.change.Material = step.old.ChangedAt, false
		}
		if err := w.importListing(step); err != nil {
			return err
		}
	}
	return w.flush(report)
}

func (w *writer) importListing(step importStep) error {
	row, err := newListingRow(step.entry)
	if err != nil {
		return fmt.Errorf("encoding listing %s: %w", step.entry.ID, err)
	}
	row.CreatedAt, row.PublicSequence = cmp.Or(step.createdAt, w.at), step.publicSequence
	w.queue(&row, step.entry, step.old)
	if step.old == nil {
		w.record(step.entry.ID, imported, nil, false)
	} else if err := w.recordUpdate(*step.old, step.entry, step.change); err != nil {
		return fmt.Errorf("describing the change of listing %s: %w", step.entry.ID, err)
	}
	switch {
	case step.change.Published:
		w.publish(step.entry.ID, nil)
	case step.change.Withdrawn:
		w.record(step.entry.ID, withdrawn, nil, false)
	}
	if step.old == nil || slices.Contains(step.change.Fields, "curation") {
		w.setCuration(step.entry.ID, step.entry.Curation)
	}
	return nil
}

// importStep is the effect of an import on one listing.
type importStep struct {
	old    *listing.Entry // nil for a new listing
	entry  listing.Entry  // after the import
	change listing.Change

	createdAt, publicSequence int64 // of old
}

// dropsLastSource reports whether the step removes the last source of a published listing. A
// listing that never had one can be edited.
func (a importStep) dropsLastSource() bool {
	return a.old != nil && a.old.Visibility == listingfile.Published && len(a.old.Sources) > 0 &&
		len(a.entry.Sources) == 0
}

// plan returns the steps of an import that change a listing, in the order of the lines. It counts
// all steps in the report, except what flush counts.
func (w *writer) plan(lines []listingfile.Line, report *api.ImportReport) (steps []importStep, err error) {
	ids := make([]string, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	known, err := findListings(w.tx, ids)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		step := importStep{}
		if l, exists := known[line.ID]; exists {
			step = importStep{old: &l.entry, createdAt: l.row.CreatedAt, publicSequence: l.row.PublicSequence}
			step.entry, step.change = l.entry.Update(line, w.now)
		} else {
			step.entry = listing.Create(line, w.now)
			step.change.Published = step.entry.Visibility == listingfile.Published
		}
		if step.dropsLastSource() {
			appendRejection(report,
				api.RejectedLine{Line: line.Number, ID: line.ID, Problems: api.Problems{listingfile.NeedsSource}})
			continue
		}
		if step.change.KeptWithdrawn {
			report.KeptWithdrawn = append(report.KeptWithdrawn, line.ID)
		}
		if step.change.Withdrawn {
			report.Withdrawn++
		}
		switch {
		case step.old == nil:
			report.Created++
		case len(step.change.Fields) == 0:
			report.Unchanged++
			continue
		default:
			report.Updated++
		}
		steps = append(steps, step)
	}
	report.Warnings, err = duplicates(w.tx, steps, report.Warnings)
	return steps, err
}

// Publish publishes the listings with the ids, all or none. It rejects an unknown id and a listing
// without a source. It accepts a withdrawn listing. If dry is set, it only counts. Line in a
// rejection is the position among the ids, from 1.
func (s *Store) Publish(ctx context.Context, actor string, ids []string, dry bool) (api.ImportReport, error) {
	return s.setVisibility(ctx, actor, ids, listingfile.Published, "", dry)
}

// Withdraw withdraws the listings with the ids, all or none; a private listing is thereby rejected
// as a candidate. It rejects an unknown id. It records the reason, which may be empty.
func (s *Store) Withdraw(ctx context.Context, actor string, ids []string, reason string) (api.ImportReport, error) {
	return s.setVisibility(ctx, actor, ids, listingfile.Withdrawn, reason, false)
}

func (s *Store) setVisibility(
	ctx context.Context, actor string, ids []string, visibility listingfile.Visibility, reason string, dry bool,
) (api.ImportReport, error) {
	return s.apply(ctx, actor, changeTimeout, dry, func(w *writer, report *api.ImportReport) error {
		w.reason = reason
		return w.setVisibility(ids, visibility, report)
	})
}

// PublishAll publishes every private listing, like Publish. Withdrawn listings stay withdrawn. Line
// in a rejection is the position among the private listings ordered by id, from 1.
func (s *Store) PublishAll(ctx context.Context, actor string, dry bool) (api.ImportReport, error) {
	return s.apply(ctx, actor, changeTimeout, dry, func(w *writer, report *api.ImportReport) error {
		var ids []string
		err := w.tx.Raw("SELECT id FROM listings WHERE visibility = ? ORDER BY id", listingfile.Private).Scan(&ids).Error
		if err != nil {
			return err
		}
		return w.setVisibility(ids, listingfile.Published, report)
	})
}

// setVisibility changes the visibility of the listings with the ids. It skips those that already
// have it.
func (w *writer) setVisibility(ids []string, visibility listingfile.Visibility, report *api.ImportReport) error {
	position := 0
	for part := range slices.Chunk(ids, batch) {
		// Do not look up invalid ids: Postgres returns an error for some strings.
		known, err := findListings(w.tx, slices.DeleteFunc(slices.Clone(part),
			func(id string) bool { return !api.ValidSlug(id) }))
		if err != nil {
			return err
		}
		for _, id := range part {
			position++
			if problem := w.changeVisibility(known[id], visibility, report); problem != nil {
				appendRejection(report, api.RejectedLine{Line: position, ID: id, Problems: api.Problems{*problem}})
			}
		}
		if err := w.flush(report); err != nil {
			return err
		}
	}
	return nil
}

// changeVisibility queues the change of a listing. It returns why the listing cannot have the
// visibility. The zero value is an unknown listing.
func (w *writer) changeVisibility(l stored, visibility listingfile.Visibility, report *api.ImportReport) *api.Problem {
	row, before := l.row, l.entry
	if row == nil {
		return new(api.NoListing("id"))
	}
	if row.Visibility == visibility {
		report.Unchanged++
		return nil
	}
	entry, fields := before, []string{"visibility"}
	if visibility == listingfile.Published {
		if len(entry.Sources) == 0 {
			return &listingfile.NeedsSource
		}
		if row.PublishedAt == nil {
			row.PublishedAt, entry.PublishedAt, fields = &w.at, &w.now, append(fields, "publishedAt")
		}
	}
	report.Updated++
	row.Visibility, entry.Visibility = visibility, visibility
	w.queue(row, entry, &before)
	if visibility == listingfile.Published {
		w.publish(row.ID, fields)
	} else {
		w.record(row.ID, withdrawn, fields, false)
	}
	return nil
}

// Export yields all listings, including private and withdrawn ones, ordered by id. It stops after
// an error.
func (s *Store) Export(ctx context.Context) iter.Seq2[listing.Entry, error] {
	return func(yield func(listing.Entry, error) bool) {
		for last := ""; ; {
			part, err := s.exportBatch(ctx, last)
			if err != nil {
				yield(listing.Entry{}, database.Outage(err))
				return
			}
			for _, l := range part {
				if last = l.row.ID; !yield(l.entry, nil) {
					return
				}
			}
			if len(part) < batch {
				return
			}
		}
	}
}

func (s *Store) exportBatch(ctx context.Context, after string) ([]stored, error) {
	var rows []*listingRow
	tx := s.db.WithContext(ctx)
	if err := tx.Where("id > ?", after).Order("id").Limit(batch).Find(&rows).Error; err != nil {
		return nil, err
	}
	return decoded(tx, rows)
}

// stored is a listing with its row.
type stored struct {
	row   *listingRow
	entry listing.Entry
}

// decoded returns the listings of rows, with their curations, in the same order.
func decoded(tx *gorm.DB, rows []*listingRow) ([]stored, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	notes, err := rowsByID(tx, "listing_id", ids, func(r *curationRow) string { return r.ListingID })
	all := make([]stored, len(rows))
	for i, row := range rows {
		if err == nil {
			all[i].row = row
			all[i].entry, err = row.entry(notes[row.ID])
		}
	}
	return all, err
}

// findListings returns the listings with the ids, by id.
func findListings(tx *gorm.DB, ids []string) (map[string]stored, error) {
	var rows []*listingRow
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	all, err := decoded(tx, rows)
	known := make(map[string]stored, len(all))
	for _, l := range all {
		known[l.row.ID] = l
	}
	return known, err
}

// rowsByID returns the rows of a table for which a column has one of the ids, by that id.
func rowsByID[T any](tx *gorm.DB, column string, ids []string, idOf func(T) string) (map[string]T, error) {
	var rows []T
	if len(ids) > 0 {
		if err := tx.Where(column+" IN ?", ids).Find(&rows).Error; err != nil {
			return nil, err
		}
	}
	all := make(map[string]T, len(rows))
	for _, row := range rows {
		all[idOf(row)] = row
	}
	return all, nil
}

// withheld is the claim of a catalog that was set back, after an operator accepted the loss:
// history has not said yet which records were withdrawn since the backup.
const withheld = "withheld"

// WithholdLater keeps the service stopped until EndWithhold.
func WithholdLater(tx *gorm.DB) error {
	return tx.Exec("INSERT INTO claims (mark) VALUES (?)", withheld).Error
}

// MustWithhold reports whether the service is stopped until EndWithhold.
func (s *Store) MustWithhold(ctx context.Context) (must bool, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM claims WHERE mark = ?)", withheld).Scan(&must).Error
	return must, database.Outage(err)
}

// Withhold withdraws the public listings among those with the ids, and returns their ids.
func (s *Store) Withhold(ctx context.Context, known []string) (ids []string, err error) {
	for part := range slices.Chunk(known, batch) {
		var public []string
		if err := s.db.WithContext(ctx).Raw("SELECT id FROM listings WHERE visibility = ? AND id IN ? ORDER BY id",
			listingfile.Published, part).
			Scan(&public).Error; err != nil {
			return nil, database.Outage(err)
		}
		ids = append(ids, public...)
	}
	if len(ids) > 0 {
		_, err = s.Withdraw(ctx, "catalog recover", ids, "withdrawn after the backup that was restored")
	}
	return ids, err
}

// EndWithhold ends the state of WithholdLater.
func (s *Store) EndWithhold(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).Exec("DELETE FROM claims WHERE mark = ?", withheld).Error)
}
