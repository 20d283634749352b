package store

import (
	"context"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/services/catalog/internal/listing"
)

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
