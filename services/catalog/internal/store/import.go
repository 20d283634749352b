package store

import (
	"cmp"
	"context"
	"fmt"
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
	if step.old == nil && step.entry.Curation != nil || slices.Contains(step.change.Fields, "curation") {
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

// maxWarnings bounds the duplicates that an import names.
const maxWarnings = 20

// duplicates adds a warning for each new listing that has the host or the company name of another
// one, private or not, stored or in an earlier step. It returns at most maxWarnings.
func duplicates(tx *gorm.DB, steps []importStep, warnings []string) ([]string, error) {
	var created []Namesake
	for _, s := range steps {
		if s.old == nil {
			created = append(created, Namesake{s.entry.ID, string(s.entry.Visibility), host(s.entry.Company.Website),
				nameKey(s.entry.Company.Name)})
		}
	}
	if len(created) == 0 || len(warnings) == maxWarnings {
		return warnings, nil
	}
	known, err := Namesakes(tx, created)
	for _, c := range created {
		i := slices.IndexFunc(known, func(k Namesake) bool { return c.Alike(k) != "" })
		if i >= 0 && len(warnings) < maxWarnings {
			warnings = append(warnings, fmt.Sprintf("%s may be a duplicate: %s (%s) has the same host or company name",
				c.ListingID, known[i].ListingID, known[i].Visibility))
		}
		known = append(known, c)
	}
	return warnings, err
}

// maxPreviewed bounds the bytes of the changes that a preview lists. Further ones are only counted.
const maxPreviewed = 16 << 20

// Preview returns the changes that Import would make for the lines of a valid file. It opens no
// transaction and blocks no writer, so concurrent changes may make it outdated.
func (s *Store) Preview(ctx context.Context, lines Lines) (report api.ImportReport, err error) {
	w := s.writer(s.db.WithContext(ctx), nil, "")
	report.Rejected = []api.RejectedLine{}
	size := 0 // bytes of the listed changes
	err = inBatches(lines, func(batch []listingfile.Line) error {
		changes, err := w.preview(batch, &report)
		for _, c := range changes {
			if size > maxPreviewed {
				report.Unlisted++
				continue
			}
			report.Changes = append(report.Changes, c)
			size += changeSize(c)
		}
		return database.Outage(err)
	})
	if len(report.Rejected) > 0 {
		report = onlyRejected(report)
	}
	return report, err
}

// preview returns and counts the changes that importBatch would make.
func (w *writer) preview(lines []listingfile.Line, report *api.ImportReport) ([]api.ListingChange, error) {
	steps, err := w.plan(lines, report)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(steps))
	for i, step := range steps {
		ids[i] = step.entry.ID
	}
	known, err := summaries(w.tx, ids)
	if err != nil {
		return nil, err
	}
	changes := make([]api.ListingChange, len(steps))
	for i, step := range steps {
		if changes[i], err = listing.Compare(step.old, step.entry, known[ids[i]], w.now); err != nil {
			return nil, err
		}
		if changes[i].NeedsReview {
			report.NeedsReview++
		}
		if changes[i].Published {
			report.Published++
			if known[ids[i]].LastCheckedAt == nil {
				report.NeverReviewed++
			}
		}
	}
	return changes, nil
}

// changeSize returns the approximate size of a change in a response.
func changeSize(c api.ListingChange) int {
	n := 150
	for _, f := range c.Fields {
		n += len(f.Field) + len(f.Old) + len(f.New) + 30
	}
	return n
}
