package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/summary"
)

// RecordHistory returns all events of slug, newest check first, and their summary with its sequence and the newest event. Of checks with the same
// time, the last recorded comes first. A slug without events has the zero sequence.
func (s *Store) RecordHistory(ctx context.Context, slug string) ([]event.Record, api.Summary, error) {
	var rows []eventRow
	if err := s.db.WithContext(ctx).Where("slug = ?", slug).Order("checked_at DESC, sequence DESC").Find(&rows).Error; err != nil {
		return nil, api.Summary{}, database.Outage(err)
	}
	records := make([]event.Record, len(rows))
	events := make([]api.VerificationEvent, len(rows))
	newest := event.Record{}
	for i, row := range rows {
		records[i] = event.Record(row)
		if records[i].Sequence > newest.Sequence {
			newest = records[i]
		}
		var err error
		if events[i], err = records[i].Event(); err != nil {
			return nil, api.Summary{}, err
		}
	}
	sum := summary.Of(slug, events)
	sum.Sequence, sum.LastEventID = newest.Sequence, newest.ID
	return records, sum, nil
}

// Review records one review like Append. It also returns the recorded event with that content, and the summary that includes it.
func (s *Store) Review(ctx context.Context, actor string, now time.Time, line eventfile.Line) (done event.Reviewed, err error) {
	r, err := event.New(line.Event)
	if err != nil {
		return done, err
	}
	r.Actor, r.RecordedAt = actor, now.UnixMicro()
	proposal := map[string][]proposed{r.Slug: {{r, line.LastEventID}}}
	err = s.exclusively(ctx, func(tx *gorm.DB, next int64) (int64, error) {
		appended, duplicates, unseen, err := appendTo(tx, []string{r.Slug}, proposal, next)
		if err != nil {
			return next, err
		}
		if len(unseen) > 0 {
			return next, &event.UnseenError{Events: unseen}
		}
		var recorded eventRow
		if err := tx.Where("slug = ? AND content_hash = ?", r.Slug, r.ContentHash).Take(&recorded).Error; err != nil {
			return next, err
		}
		var row summaryRow
		if err := tx.Where("slug = ?", r.Slug).Take(&row).Error; err != nil {
			return next, err
		}
		done = event.Reviewed{
			Record: event.Record(recorded), Duplicate: duplicates > 0,
			Summary: api.EncodedSummary{Slug: row.Slug, Sequence: row.Sequence, JSON: row.Summary},
		}
		return next + int64(appended), nil
	})
	if err == nil && !done.Duplicate {
		s.appended.Add(1)
	}
	return done, err
}
