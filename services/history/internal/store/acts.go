package store

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// ReviewsSince returns the number of reviews that each operator recorded since then, without undone
// ones and those that undo.
func (s *Store) ReviewsSince(ctx context.Context, since time.Time) (map[string]int, error) {
	var rows []event.Record
	err := s.db.WithContext(ctx).Where("recorded_at >= ? AND check_type = ?", since.UnixMicro(), api.FactualReview).
		Find(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	events := make([]api.RecordedEvent, len(rows))
	for i := range rows {
		if events[i], err = rows[i].Recorded(); err != nil {
			return nil, err
		}
	}
	done := map[string]int{}
	for _, e := range event.InEffect(events) {
		done[e.Actor]++
	}
	return done, nil
}

// Acts returns the recorded events that match f, the last recorded first.
func (s *Store) Acts(ctx context.Context, f event.ActFilter) ([]event.Record, error) {
	q := s.db.WithContext(ctx).Order("sequence DESC").Limit(f.Limit).
		Where(&event.Record{Actor: f.Actor, Slug: f.Slug, CheckType: f.CheckType}) // ignores empty fields
	if f.Before > 0 {
		q = q.Where("sequence < ?", f.Before)
	}
	if !f.Since.IsZero() {
		q = q.Where("recorded_at >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		q = q.Where("recorded_at < ?", f.Until.UnixMicro())
	}
	var records []event.Record
	err := q.Find(&records).Error
	return records, database.Outage(err)
}

// AsOf returns the events of slug recorded up to at, newest check first, and the summary derived
// from them. Of checks with the same time, the last recorded comes first. It does not use the
// stored summary, which includes later events.
func (s *Store) AsOf(ctx context.Context, slug string, at time.Time) ([]event.Record, api.Summary, error) {
	var records []event.Record
	err := s.db.WithContext(ctx).Where("slug = ? AND recorded_at <= ?", slug, at.UnixMicro()).
		Order("checked_at DESC, sequence DESC").Find(&records).Error
	if err != nil {
		return nil, api.Summary{}, database.Outage(err)
	}
	state, err := event.StateOfRecords(slug, records)
	return records, state.Summary, err
}
