package store

import (
	"context"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/catalog/internal/listing"
)

type actRow struct {
	ID     int64
	Change changeRow `gorm:"embedded"`
}

func (actRow) TableName() string { return changeRow{}.TableName() }

func (r changeRow) act() api.ListingAct {
	act := api.ListingAct{At: database.FromMicros(r.At), Actor: r.Actor, Action: r.What, Fields: []string{},
		Reason: r.Reason}
	if r.Fields != "" {
		act.Fields = strings.Split(r.Fields, ",")
	}
	return act
}

// acts returns up to limit rows that match f, newest first.
func acts(tx *gorm.DB, f listing.ActFilter, limit int) (rows []actRow, err error) {
	q := tx.Where(&changeRow{ListingID: f.Listing, Actor: f.Actor, What: f.Action}).Order("id DESC").Limit(limit)
	if f.Before > 0 {
		q = q.Where("id < ?", f.Before)
	}
	if !f.Since.IsZero() {
		q = q.Where("at >= ?", database.Micros(f.Since))
	}
	if !f.Until.IsZero() {
		q = q.Where("at < ?", database.Micros(f.Until))
	}
	return rows, database.Outage(q.Find(&rows).Error)
}

// Acts returns what operators did to listings, newest first: up to f.Limit acts that match f.
func (s *Store) Acts(ctx context.Context, f listing.ActFilter) (api.ListingActList, error) {
	rows, err := acts(s.db.WithContext(ctx), f, f.Limit+1)
	list := api.ListingActList{Acts: []api.IdentifiedAct{}}
	if len(rows) > f.Limit {
		rows = rows[:f.Limit]
		list.Next = rows[f.Limit-1].ID
	}
	for _, row := range rows {
		act := api.IdentifiedAct{ID: row.ID, Listing: row.Change.ListingID, ListingAct: row.Change.act()}
		list.Acts = append(list.Acts, act)
	}
	return list, err
}

// Decide records that an operator proposes to withdraw a listing, or declines the proposal. It
// returns problem.NotFound for an unknown listing.
func (s *Store) Decide(ctx context.Context, id, actor, decision, reason string) error {
	tx := s.db.WithContext(ctx)
	if err := Exists(tx, id); err != nil {
		return err
	}
	return database.Outage(tx.Create(&changeRow{ListingID: id, At: database.Micros(s.now()), Actor: actor, What: decision,
		Reason: reason}).Error)
}

const maxWithdrawals = 1000 // in a list

// Withdrawals lists the open proposals for published records, oldest first. A later decision about
// the visibility ends a proposal. That of a review also ends with a later review, or if the review
// is undone.
func (s *Store) Withdrawals(ctx context.Context) (api.WithdrawalList, error) {
	var rows []struct {
		Change  changeRow `gorm:"embedded"`
		Company string
	}
	list := api.WithdrawalList{Withdrawals: []api.Withdrawal{}}
	err := s.db.WithContext(ctx).Raw(`SELECT c.listing_id, i.company, c.actor, c.reason, c.at
		FROM listing_changes c JOIN listing_index i ON i.listing_id = c.listing_id
		WHERE c.what = @proposed AND i.visibility = 'published'
			AND (c.reason <> @ended OR i.whys LIKE '%,closed,%' AND i.last_checked_at <= c.at)
			AND NOT EXISTS (SELECT 1 FROM listing_changes n WHERE n.listing_id = c.listing_id AND n.id > c.id
				AND n.what IN (@proposed, @declined, @withdrawn, @published))
		ORDER BY c.id LIMIT @limit`, map[string]any{"ended": api.ReasonEnded, "limit": maxWithdrawals, "proposed": Proposed,
		"declined": Declined, "withdrawn": withdrawn, "published": published}).Scan(&rows).Error
	for _, row := range rows {
		list.Withdrawals = append(list.Withdrawals, api.Withdrawal{ID: row.Change.ListingID, Company: row.Company,
			Actor: row.Change.Actor, Reason: row.Change.Reason, ProposedAt: database.FromMicros(row.Change.At)})
	}
	return list, database.Outage(err)
}
