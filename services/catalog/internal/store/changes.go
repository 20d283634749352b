package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
	"opportunity.internal/services/catalog/internal/query"
)

// settleTime is the age from which consumers see a change: twice snapshot.PollInterval. By then
// every replica with a database serves the changed record, so a consumer that reads the record next
// does not get an older state.
const settleTime = 2 * time.Second

// RecordChanges returns the changes of records that consumers can see, oldest first: of each record
// the latest one, and none above the sequence loaded. It returns a *problem.Error with code
// cursor_expired if the database lacks the change of the cursor, or if a later change is older than
// api.ChangesKept.
func (s *Store) RecordChanges(ctx context.Context, q query.Changes, loaded int64) (page listing.ChangePage, err error) {
	tx, now := s.db.WithContext(ctx), s.now()
	// Changes that consumers cannot see must not show in cursors either.
	settled := tx.Where("public AND sequence <= ? AND at <= ?", loaded,
		database.Micros(now.Add(-settleTime))).Order("sequence DESC")
	if page.Newest, err = position(settled); err != nil {
		return page, err
	}
	oldest, err := position(tx.Where("public AND at < ?",
		database.Micros(now.Add(-api.ChangesKept))).Order("at DESC, sequence DESC"))
	if err != nil {
		return page, err
	}
	after := q.Position
	switch q.After {
	case "":
		after = oldest
	case query.Now:
		after = page.Newest
	default:
		if err := s.readable(ctx, after, oldest); err != nil {
			return page, err
		}
	}
	if after.Sequence > page.Newest.Sequence { // the cursor is from a replica that has loaded more
		page.Newest = after
	}
	page.End = page.Newest
	rows, err := changedRecords(tx, after, page.Newest, q.Limit+1)
	if err != nil {
		return page, err
	}
	if page.HasMore = len(rows) > q.Limit; page.HasMore {
		rows = rows[:q.Limit]
		page.End = listing.Position{Sequence: rows[q.Limit-1].Sequence, ID: rows[q.Limit-1].TransactionID}
	}
	page.Changes = make([]api.RecordChange, len(rows))
	for i, row := range rows {
		page.Changes[i] = row.change()
	}
	return page, nil
}

// position returns the position behind the first change of a query, or the zero value.
func position(changes *gorm.DB) (listing.Position, error) {
	var rows []transactionRow
	if err := changes.Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return listing.Position{}, database.Outage(err)
	}
	return listing.Position{Sequence: rows[0].Sequence, ID: rows[0].ID}, nil
}

// readable returns an error unless all changes after a position can be read.
func (s *Store) readable(ctx context.Context, after, oldest listing.Position) error {
	stored, err := s.PositionAt(ctx, after.Sequence)
	if err != nil {
		return err
	}
	if after.Sequence < oldest.Sequence || after.Sequence > 0 && stored.ID != after.ID {
		return problem.New(problem.CursorExpired,
			"The changes after this cursor can no longer be read. Get a new cursor with after=now, then read all records again.")
	}
	return nil
}

// changedRow is the latest change of a record that consumers can see.
type changedRow struct {
	Sequence      int64
	ID            string
	Visibility    listingfile.Visibility
	Published     int64 // sequence of its latest publication
	TransactionID string
	At            int64
}

// changedRecords returns the latest changes of records after a position.
func changedRecords(tx *gorm.DB, after, until listing.Position, limit int) (rows []changedRow, err error) {
	err = tx.Raw(`SELECT l.*, m.id AS transaction_id, m.at FROM (
			SELECT public_sequence AS sequence, id, visibility, (SELECT c.sequence FROM listing_changes c
				WHERE c.listing_id = listings.id AND c.what = 'published' ORDER BY c.id DESC LIMIT 1) AS published
			FROM listings WHERE public_sequence > ? AND public_sequence <= ? ORDER BY public_sequence LIMIT ?
		) AS l JOIN changes m ON m.sequence = (SELECT MIN(sequence) FROM changes WHERE sequence >= l.sequence)
		ORDER BY l.sequence`, after.Sequence, until.Sequence, limit).Scan(&rows).Error
	return rows, database.Outage(err)
}

func (r changedRow) change() api.RecordChange {
	kind := api.ChangeUpdated
	switch {
	case r.Visibility == listingfile.Withdrawn:
		kind = api.ChangeWithdrawn
	case r.Published == r.Sequence:
		kind = api.ChangePublished
	}
	return api.RecordChange{
		ID: r.ID, Change: kind, At: database.FromMicros(r.At),
		Cursor: listing.Position{Sequence: r.Sequence, ID: r.TransactionID}.Cursor(),
	}
}
