package store

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// AsOf returns the events of slug recorded up to at, newest check first, and the summary derived
// from them. Of checks with the same time, the last recorded comes first. It does not use the
// stored summary, which includes later events.
func (s *Store) AsOf(ctx context.Context, slug string, at time.Time) ([]event.Record, api.Summary, error) {
	var rows []eventRow
	err := s.db.WithContext(ctx).Where("slug = ? AND recorded_at <= ?", slug, at.UnixMicro()).
		Order("checked_at DESC, sequence DESC").Find(&rows).Error
	if err != nil {
		return nil, api.Summary{}, database.Outage(err)
	}
	records := make([]event.Record, len(rows))
	for i, row := range rows {
		records[i] = event.Record(row)
	}
	state, err := event.StateOfRecords(slug, records)
	return records, state.Summary, err
}
