package desk

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Decide records in the log of changes that an operator proposes to withdraw a listing
// ("withdrawal-proposed"), or declines the proposal ("withdrawal-declined").
func (s *Store) Decide(ctx context.Context, id, actor, decision, reason string) error {
	tx := s.db.WithContext(ctx)
	if err := exists(tx, id); err != nil {
		return err
	}
	return database.Outage(tx.Exec(`INSERT INTO listing_changes
		(listing_id, at, actor, what, fields, material, reason, differences, sequence)
		VALUES (?, ?, ?, ?, '', FALSE, ?, '', 0)`, id, database.Micros(s.now()), actor, decision, reason).Error)
}

// maxWithdrawals is the maximum number of proposals in a list.
const maxWithdrawals = 1000

// Withdrawals lists the open proposals for published records, oldest first. A later decision about
// the visibility ends a proposal. That of a review also ends with a later review, or if the review
// is undone.
func (s *Store) Withdrawals(ctx context.Context) (api.WithdrawalList, error) {
	var rows []struct {
		ListingID, Company, Actor, Reason string
		At                                int64
	}
	list := api.WithdrawalList{Withdrawals: []api.Withdrawal{}}
	err := s.db.WithContext(ctx).Raw(`SELECT c.listing_id, i.company, c.actor, c.reason, c.at
		FROM listing_changes c JOIN listing_index i ON i.listing_id = c.listing_id
		WHERE c.what = 'withdrawal-proposed' AND i.visibility = 'published'
			AND (c.reason <> @ended OR i.whys LIKE '%,closed,%' AND i.last_checked_at <= c.at)
			AND NOT EXISTS (SELECT 1 FROM listing_changes n WHERE n.listing_id = c.listing_id AND n.id > c.id
				AND n.what IN ('withdrawal-proposed', 'withdrawal-declined', 'withdrawn', 'published'))
		ORDER BY c.id LIMIT @limit`, map[string]any{"ended": api.ReasonEnded, "limit": maxWithdrawals}).Scan(&rows).Error
	for _, row := range rows {
		list.Withdrawals = append(list.Withdrawals, api.Withdrawal{ID: row.ListingID, Company: row.Company,
			Actor: row.Actor, Reason: row.Reason, ProposedAt: database.FromMicros(row.At)})
	}
	return list, database.Outage(err)
}
