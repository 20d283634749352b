package store

import (
	"context"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/history/internal/event"
)

// Page is a page of a listing's history.
type Page struct {
	Sequence int64 // of the listing's newest event; 0 without events
	Total    int   // events of the listing
	Events   []api.VerificationEvent
}

// History returns a page of the events of slug, newest check first. Of checks with the same time,
// the last recorded comes first. published is false if slug is not a public listing. It needs at
// most two queries.
func (s *Store) History(ctx context.Context, slug string, offset, limit int) (page Page, published bool,
	err error) {
	db := s.db.WithContext(ctx)
	var heads []struct {
		Sequence int64
		Events   int
	}
	err = db.Raw(`SELECT coalesce(s.sequence, 0) AS sequence, coalesce(s.events, 0) AS events
		FROM listings l LEFT JOIN summaries s ON s.slug = l.id WHERE l.id = ? AND l.published`, slug).Scan(&heads).Error
	if err != nil || len(heads) == 0 {
		return Page{}, false, database.Outage(err)
	}
	page = Page{Sequence: heads[0].Sequence, Total: heads[0].Events, Events: []api.VerificationEvent{}}
	if offset >= page.Total {
		return page, true, nil
	}
	var rows []event.Record // without events appended since the first query, to match the total
	err = db.Where("slug = ? AND sequence <= ?", slug, page.Sequence).Order("checked_at DESC, sequence DESC").
		Offset(offset).Limit(limit).Find(&rows).Error
	if err != nil {
		return Page{}, false, database.Outage(err)
	}
	for i := range rows {
		e, err := rows[i].Event()
		if err != nil {
			return Page{}, false, err
		}
		page.Events = append(page.Events, e)
	}
	return page, true, nil
}

// RecordHistory returns all events of slug, newest check first, and their state with the sequence
// and the id of the newest event. Of checks with the same time, the last recorded comes first. A
// slug without events has the zero sequence. The event with the id without, if any, and later
// reviews by its author are left out, also of the state, except for its LastEventID: a second
// opinion must not know them.
func (s *Store) RecordHistory(ctx context.Context, slug, without string) ([]event.Record, event.State, error) {
	var all []event.Record
	if err := s.db.WithContext(ctx).Where("slug = ?", slug).Order("checked_at DESC, sequence DESC").
		Find(&all).Error; err != nil {
		return nil, event.State{}, database.Outage(err)
	}
	records := make([]event.Record, 0, len(all))
	var newest, hidden event.Record
	if i := slices.IndexFunc(all, func(r event.Record) bool { return r.ID == without }); i >= 0 {
		hidden = all[i]
	}
	for _, r := range all {
		if r.Sequence > newest.Sequence {
			newest = r
		}
		if hidden.ID == "" || r.ID != hidden.ID && (r.Sequence < hidden.Sequence || !r.ReviewBy(hidden.Actor)) {
			records = append(records, r)
		}
	}
	state, err := event.StateOfRecords(slug, records)
	state.Sequence, state.LastEventID = newest.Sequence, newest.ID
	return records, state, err
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

// ActFilter selects recorded events. A field with its zero value matches every event.
type ActFilter struct {
	Actor     string
	Slug      string
	CheckType api.CheckType
	Since     time.Time // recorded at or after
	Until     time.Time // recorded before
	Before    int64     // with a lower sequence
	Limit     int
}

// Acts returns the recorded events that match f, the last recorded first.
func (s *Store) Acts(ctx context.Context, f ActFilter) ([]event.Record, error) {
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
