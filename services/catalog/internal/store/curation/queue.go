package curation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/review"
	"opportunity.internal/services/catalog/internal/store"
)

const day = 24 * time.Hour

// Queue returns a page of the review queue, without api.Workday.DoneBy.
func (s *Store) Queue(ctx context.Context, f review.QueueFilter) (api.ReviewQueue, error) {
	tx, now := s.db.WithContext(ctx), s.now().UTC()
	queue := api.ReviewQueue{GeneratedAt: now, Records: []api.QueueRecord{}}
	p, err := progress(tx, now)
	if err != nil {
		return queue, err
	}
	queue.Due = p.due
	queue.Today = api.Workday{Target: review.Level(p.backlog, p.done, now), Done: p.done, DoneBy: map[string]int{}}
	var rows []queueRow
	err = planned(tx, func(tx *gorm.DB) (err error) {
		rows, err = rowsOfScope(tx, f, now, queue.Today.Target-p.done-p.due)
		return err
	})
	if err != nil {
		return queue, err
	}
	if len(rows) > f.Limit {
		rows = rows[:f.Limit]
		last := rows[f.Limit-1]
		queue.Next = review.Position{Rank: last.Rank, DueAt: last.DueAt, ID: last.ListingID}.Cursor()
	}
	for _, row := range rows {
		record, err := row.record(now)
		if err != nil {
			return queue, err
		}
		queue.Records = append(queue.Records, record)
	}
	return queue, nil
}

// planned runs read with plans for the values of its statements. Otherwise, after five executions
// Postgres uses one plan for all values, and reads the whole queue in its order.
func planned(tx *gorm.DB, read func(tx *gorm.DB) error) error {
	if tx.Name() != database.Postgres {
		return read(tx)
	}
	return database.Outage(tx.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("SET LOCAL plan_cache_mode = force_custom_plan").Error; err != nil {
			return err
		}
		return read(tx)
	}, &sql.TxOptions{ReadOnly: true}))
}

type progressCounts struct {
	due     int // due now
	done    int // latest review today
	backlog review.Backlog
}

// progress counts the published records that are due, were reviewed today, and fall due on each
// day.
func progress(tx *gorm.DB, now time.Time) (p progressCounts, err error) {
	var counts []struct{ Day, Records, Due int }
	today := database.Micros(now.Truncate(day))
	err = tx.Raw(`SELECT CASE WHEN due_at < @today THEN 0 ELSE (due_at - @today) / @day END AS day, count(*) AS records,
			count(CASE WHEN due_at <= @now THEN 1 END) AS due
		FROM listing_index WHERE visibility = 'published' AND due_at < @end GROUP BY 1`, map[string]any{
		"today": today, "day": day.Microseconds(), "now": database.Micros(now),
		"end": today + review.Horizon*day.Microseconds(),
	}).Scan(&counts).Error
	if err != nil {
		return p, database.Outage(err)
	}
	for _, c := range counts {
		p.backlog[c.Day] = c.Records
		p.due += c.Due
	}
	err = tx.Raw("SELECT count(*) FROM listing_index WHERE visibility = 'published' AND last_checked_at >= ?",
		today).Scan(&p.done).Error
	return p, database.Outage(err)
}

// rowsOfScope returns the rows of a page, and one more if there is another page. early is the
// number of records that are not due yet and belong to today.
func rowsOfScope(tx *gorm.DB, f review.QueueFilter, now time.Time, early int) ([]queueRow, error) {
	until := review.Position{DueAt: math.MaxInt64}
	if !f.Until.IsZero() {
		until.DueAt = database.Micros(f.Until)
	}
	if f.Today {
		until.DueAt = database.Micros(now)
	}
	rows, err := queueRows(tx, f, until, now)
	if err != nil || !f.Today || early <= 0 || len(rows) > f.Limit {
		return rows, err
	}
	if until, err = endOfToday(tx, now, early); err != nil {
		return nil, err
	}
	return queueRows(tx, f, until, now)
}

// endOfToday returns the position of the last record of today, the nth record after the due ones
// that is not skipped.
func endOfToday(tx *gorm.DB, now time.Time, n int) (review.Position, error) {
	var last []review.Position
	err := tx.Raw(`SELECT i.due_at, i.listing_id AS id FROM listing_index i
		WHERE i.visibility = 'published' AND i.due_at > @now
			AND NOT EXISTS (SELECT 1 FROM skips s WHERE s.listing_id = i.listing_id AND s.ends_at > @now)
		ORDER BY i.due_at, i.listing_id LIMIT 1 OFFSET @skip`,
		map[string]any{"now": database.Micros(now), "skip": n - 1}).Scan(&last).Error
	if err != nil || len(last) == 0 { // fewer records: all of them
		return review.Position{DueAt: database.Micros(now.Add(review.Horizon * day))}, database.Outage(err)
	}
	return last[0], nil
}

// Due lists the published records that are due for a factual review by until, longest due first.
func (s *Store) Due(ctx context.Context, until time.Time) (api.DueList, error) {
	now := s.now().UTC()
	list := api.DueList{GeneratedAt: now, Until: until.UTC(), Records: []api.DueRecord{}}
	var rows []queueRow
	err := s.db.WithContext(ctx).Raw(`SELECT listing_id, company, category, status, due_at, reasons, last_checked_at
		FROM listing_index
		WHERE visibility = 'published' AND due_at <= ? ORDER BY due_at, listing_id`, database.Micros(until)).Scan(&rows).Error
	if err != nil {
		return list, database.Outage(err)
	}
	for _, row := range rows {
		record, err := row.due(now)
		if err != nil {
			return list, err
		}
		if record.Reasons = review.ReasonsAt(record.Reasons, until); len(record.Reasons) > 0 {
			list.Records = append(list.Records, record)
		}
	}
	return list, nil
}

type queueRow struct {
	ListingID     string
	Company       string
	Category      api.Category
	Host          string
	Status        api.VerificationStatus
	DueAt         int64
	Reasons       string
	LastCheckedAt *int64
	Rank          review.Rank `gorm:"-"`
	Draft         bool
	Lease         leaseRow `gorm:"embedded;embeddedPrefix:lease_"`
	Skip          skipRow  `gorm:"embedded;embeddedPrefix:skip_"`
}

// queueRows returns the rows of a page, and one more if there is another page. It reads one rank
// after the other, each in the order of an index. Records with a missing quote belong to today
// whenever they fall due.
func queueRows(tx *gorm.DB, f review.QueueFilter, until review.Position, now time.Time) (rows []queueRow, err error) {
	for rank := f.After.Rank; rank <= review.QuotesPresent && len(rows) <= f.Limit; rank++ {
		ranked, err := ofRank(tx, rank, f.Findings)
		if err != nil {
			return nil, err
		}
		if ranked != nil {
			last := until
			if f.Today && rank == review.QuoteMissing {
				last = review.Position{DueAt: math.MaxInt64}
			}
			more, err := rankRows(ranked, f, last, now)
			if err != nil {
				return nil, err
			}
			for i := range more {
				more[i].Rank = rank
			}
			rows = append(rows, more...)
		}
		f.After = review.Position{}
	}
	return rows, nil
}

// ofRank returns tx with the condition that a listing has the rank, nil if none has.
func ofRank(tx *gorm.DB, rank review.Rank, findings api.ListingFindings) (*gorm.DB, error) {
	lists := map[review.Rank][]string{
		review.QuoteMissing: findings.Missing, review.QuotesPresent: findings.Present,
		review.QuotesOther: slices.Concat(findings.Missing, findings.Present),
	}
	ids := lists[rank]
	if len(ids) == 0 {
		if rank == review.QuotesOther {
			return tx, nil
		}
		return nil, nil
	}
	text, err := json.Marshal(ids)
	elements := "SELECT value FROM json_each(?)"
	if tx.Name() == database.Postgres {
		elements = "SELECT jsonb_array_elements_text(CAST(? AS jsonb))"
	}
	condition := "i.listing_id IN (" + elements + ")"
	switch rank {
	case review.QuotesOther:
		condition = "i.listing_id NOT IN (" + elements + ")"
	case review.QuotesPresent:
		// a filter: Postgres would start from the many ids and sort their rows
		condition = "(" + condition + ") IS TRUE"
	}
	return tx.Where(condition, string(text)), err
}

func rankRows(tx *gorm.DB, f review.QueueFilter, until review.Position, now time.Time) (rows []queueRow, err error) {
	us := database.Micros(now)
	q := tx.Table("listing_index i").
		Select(`i.listing_id, i.company, i.category, i.host, i.status, i.due_at, i.reasons, i.last_checked_at,
			l.holder AS lease_holder, l.taken_at AS lease_taken_at, l.expires_at AS lease_expires_at,
			s.actor AS skip_actor, s.reason AS skip_reason, s.skipped_at AS skip_skipped_at, s.ends_at AS skip_ends_at,
			d.operator IS NOT NULL AS draft`).
		Joins("LEFT JOIN leases l ON l.listing_id = i.listing_id AND l.expires_at > ?", us).
		Joins("LEFT JOIN skips s ON s.listing_id = i.listing_id AND s.ends_at > ?", us).
		Joins("LEFT JOIN drafts d ON d.listing_id = i.listing_id AND d.operator = ?", f.Operator).
		Where("i.visibility = 'published' AND (i.due_at, i.listing_id) > (?, ?)", f.After.DueAt, f.After.ID)
	end, values := "(i.due_at, i.listing_id) <= (?, ?)", []any{until.DueAt, until.ID}
	if until.ID == "" { // a review is still fresh at the exact end of its freshness window
		end, values = "i.due_at <= ? AND NOT (i.due_at = ? AND i.whys = ?)", []any{until.DueAt, until.DueAt,
			"," + api.DueStale + ","}
	}
	q = q.Where(end, values...)
	// Subqueries: conditions on the columns of a LEFT JOIN mislead Postgres about the number of rows,
	// so that it sorts the whole queue.
	const skipped = "EXISTS (SELECT 1 FROM skips WHERE skips.listing_id = i.listing_id AND skips.ends_at > ?)"
	if f.Skipped {
		q = q.Where(skipped, us)
	} else {
		q = q.Where("NOT "+skipped, us)
	}
	if f.Available {
		q = q.Where("NOT EXISTS (SELECT 1 FROM leases o WHERE o.listing_id = i.listing_id AND o.expires_at > ? AND "+
			"o.holder <> ?)", us, f.Operator)
	}
	if f.Holder != "" {
		q = q.Where("i.listing_id IN (SELECT h.listing_id FROM leases h WHERE h.holder = ? AND h.expires_at > ?)",
			f.Holder, us)
	}
	if f.Why != "" {
		q = q.Where("i.whys LIKE ?", "%,"+f.Why+",%")
	}
	err = withFilter(q, f.Filter, us).Order("i.due_at, i.listing_id").Limit(f.Limit + 1).Scan(&rows).Error
	return rows, database.Outage(err)
}

func (r queueRow) record(now time.Time) (api.QueueRecord, error) {
	due, err := r.due(now)
	record := api.QueueRecord{Host: r.Host, Draft: r.Draft, Quotes: r.Rank.Quotes(), DueRecord: due,
		Lease: r.Lease.lease(), Skip: r.Skip.skip()}
	// A record in doubt is not due because it will turn stale.
	record.Reasons = slices.DeleteFunc(record.Reasons, func(d api.DueReason) bool {
		return d.Why == api.DueStale && d.At.After(now) && r.Status != api.Verified
	})
	return record, err
}

// due returns the record with all its reasons, also later ones.
func (r queueRow) due(now time.Time) (api.DueRecord, error) {
	record := api.DueRecord{
		ID: r.ListingID, Company: r.Company, Category: r.Category, LastCheckedAt: store.FromMicros(r.LastCheckedAt),
		Status: statusAt(r.Status, r.DueAt, database.Micros(now)),
	}
	if err := json.Unmarshal([]byte(r.Reasons), &record.Reasons); err != nil {
		return record, fmt.Errorf("decoding reasons of listing %s: %w", r.ListingID, err)
	}
	record.DueAt = record.Reasons[0].At
	return record, nil
}
