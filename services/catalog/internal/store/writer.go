package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

// writer collects the changed rows of one batch. flush writes them in a few statements.
type writer struct {
	tx    *gorm.DB
	next  *int64
	actor string
	// reason is recorded with every change.
	reason string
	// inReview is set while a review is recorded whose author made the changes: none is material.
	inReview bool
	now      time.Time
	at       int64 // now in microseconds, as stored

	listings         []*listingRow
	entries          []listing.Entry  // of listings
	before           []*listing.Entry // entries before the change, nil for a new listing
	changes          []changeRow
	published        []string // ids of the listings that became visible
	curations        []curationRow
	deletedCurations []string
}

func (s *Store) writer(tx *gorm.DB, next *int64, actor string) *writer {
	now := s.now().UTC().Truncate(time.Microsecond)
	return &writer{tx: tx, next: next, actor: actor, now: now, at: *toMicros(&now)}
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

// queue queues the row of a changed listing, which has the content of e. before is nil for a new
// one.
func (w *writer) queue(row *listingRow, e listing.Entry, before *listing.Entry) {
	*w.next++
	row.Sequence, row.UpdatedAt = *w.next, w.at
	w.listings, w.entries, w.before = append(w.listings, row), append(w.entries, e), append(w.before, before)
}

// record records a change of the listing that was queued last.
func (w *writer) record(id, what string, fields []string, material bool) {
	w.changes = append(w.changes, changeRow{
		ListingID: id, At: w.at, Actor: w.actor, What: what, Fields: strings.Join(fields, ","), Material: material,
		Reason:   w.reason,
		Sequence: *w.next,
	})
}

// recordUpdate records an edit, with the old and the new value of each material field.
func (w *writer) recordUpdate(old, entry listing.Entry, change listing.Change) error {
	w.record(entry.ID, updated, change.Fields, change.Material)
	if !change.Material {
		return nil
	}
	compared, err := listing.Compare(&old, entry, api.Summary{}, w.now)
	if err != nil {
		return err
	}
	material := slices.DeleteFunc(compared.Fields, func(f api.FieldChange) bool {
		return !listing.Material(f.Field[:strings.IndexAny(f.Field+".", ".[")])
	})
	text, err := api.Encode(material)
	w.changes[len(w.changes)-1].Differences = string(text)
	return err
}

func (w *writer) publish(id string, fields []string) {
	w.record(id, published, fields, false)
	w.published = append(w.published, id)
}

func (w *writer) setCuration(id string, c *api.Curation) {
	if c == nil {
		w.deletedCurations = append(w.deletedCurations, id)
		return
	}
	w.curations = append(w.curations, curationRow{id, *c})
}

// flush writes the queued rows and the index rows of the listings, and counts the published ones.
func (w *writer) flush(report *api.ImportReport) error {
	ids := make([]string, len(w.listings))
	var existing []string
	for i, row := range w.listings {
		ids[i] = row.ID
		if w.before[i] != nil {
			existing = append(existing, row.ID)
		}
	}
	known, err := summaries(w.tx, ids)
	if err != nil {
		return err
	}
	for i, row := range w.listings {
		same, err := listing.SameForConsumers(w.before[i], known[row.ID], w.entries[i], known[row.ID])
		if err != nil {
			return err
		}
		if !same {
			row.PublicSequence = row.Sequence
		}
	}
	if err := database.Insert(w.tx, w.listings, "id"); err != nil {
		return err
	}
	if len(w.deletedCurations) > 0 {
		if err := w.tx.Where("listing_id IN ?", w.deletedCurations).Delete(&curationRow{}).Error; err != nil {
			return err
		}
	}
	if err := database.Insert(w.tx, w.curations, "listing_id"); err != nil {
		return err
	}
	if err := database.Insert(w.tx, w.changes, ""); err != nil {
		return err
	}
	if err := saveIndex(w.tx, w.entries, existing, known); err != nil {
		return err
	}
	report.Published += len(w.published)
	for _, id := range w.published {
		if known[id].LastCheckedAt == nil {
			report.NeverReviewed++
		}
	}
	*w = writer{tx: w.tx, next: w.next, actor: w.actor, reason: w.reason, inReview: w.inReview, now: w.now, at: w.at}
	return nil
}
