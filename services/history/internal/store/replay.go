package store

import (
	"bytes"
	"context"
	"fmt"

	"gorm.io/gorm"

	"opportunity.internal/services/history/internal/event"
)

// Replay records events of an export with their sequences and hashes, and returns the number of those that the store lacked. It returns an
// error, and changes nothing, unless the events continue the stored ones. The records must have consecutive sequences.
func (s *Store) Replay(ctx context.Context, records []event.Record) (added int, err error) {
	err = s.exclusively(ctx, appendTimeout, func(tx *gorm.DB, next int64) (int64, error) {
		fresh, err := unrecorded(tx, records, next)
		if err != nil || len(fresh) == 0 {
			return next, err
		}
		var slugs []string
		for _, r := range fresh {
			slugs = append(slugs, r.Slug)
		}
		histories, err := load(tx, allColumns, len(slugs), slugs)
		if err != nil {
			return next, err
		}
		rows := make([]eventRow, len(fresh))
		for i, r := range fresh {
			if r.Leaf() == nil {
				return next, fmt.Errorf("event %d of %s contradicts itself", r.Sequence, r.Slug)
			}
			histories[r.Slug], rows[i] = append(histories[r.Slug], r), eventRow(r)
		}
		var summaries []summaryRow
		for slug, history := range histories {
			row, err := summarize(slug, history)
			if err != nil {
				return next, err
			}
			summaries = append(summaries, row)
		}
		added = len(fresh)
		return next + int64(added), save(tx, rows, summaries)
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// unrecorded returns the records that the store lacks. It returns an error if the store has another event with the sequence of one, or if
// the first of them does not have the sequence next.
func unrecorded(tx *gorm.DB, records []event.Record, next int64) ([]event.Record, error) {
	first := records[0].Sequence
	stored, err := recordsAfter(tx, first-1, len(records))
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		switch {
		case r.Sequence != first+int64(i):
			return nil, fmt.Errorf("event %d follows event %d: want consecutive sequences", r.Sequence, first+int64(i)-1)
		case i < len(stored) && !bytes.Equal(stored[i].Leaf(), r.Leaf()):
			return nil, fmt.Errorf("the history has another event with sequence %d: events were recorded after it was set back", r.Sequence)
		case i == len(stored) && r.Sequence != next:
			return nil, fmt.Errorf("events %d to %d are missing in the export", next, r.Sequence-1)
		}
	}
	return records[min(len(stored), len(records)):], nil
}
