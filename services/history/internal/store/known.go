package store

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
	"opportunity.internal/services/history/internal/summary"
)

// Known are the events of slug that had been recorded at an instant, newest check first, of equal ones the newest appended first,
// and what they come to. It reads no summary: that one knows more.
func (s *Store) Known(ctx context.Context, slug string, at time.Time) ([]event.Record, api.Summary, error) {
	var rows []eventRow
	err := s.db.WithContext(ctx).Where("slug = ? AND recorded_at <= ?", slug, at.UnixMicro()).
		Order("checked_at DESC, sequence DESC").Find(&rows).Error
	if err != nil {
		return nil, api.Summary{}, database.Outage(err)
	}
	records := make([]event.Record, len(rows))
	events := make([]api.VerificationEvent, len(rows))
	for i, row := range rows {
		records[i] = event.Record(row)
		if events[i], err = records[i].Event(); err != nil {
			return nil, api.Summary{}, err
		}
	}
	return records, summary.Of(slug, events), nil
}
