package store

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
)

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
