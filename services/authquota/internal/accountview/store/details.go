package store

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountview"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// latest is the number of audit log entries in account details.
const latest = 20

// Account returns the details of an account.
func (s *Store) Account(ctx context.Context, id string) (accountview.Details, error) {
	db := s.db.WithContext(ctx)
	var row dbtx.AccountRow
	err := db.Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return accountview.Details{}, account.NotFound()
	}
	if err != nil {
		return accountview.Details{}, database.Outage(err)
	}
	a, err := row.WithPaid(db)
	if err != nil {
		return accountview.Details{}, database.Outage(err)
	}
	details := accountview.Details{Account: a}
	err = db.Raw("SELECT COALESCE(sum(calls), 0) FROM usage_days WHERE day = ? AND account_id = ?", counter.DayOf(s.db.Now()), id).
		Scan(&details.UsedToday).Error
	if err != nil {
		return details, database.Outage(err)
	}
	for _, describe := range s.other.Describe {
		if err := describe(ctx, &details); err != nil {
			return details, err
		}
	}
	details.Audit, _, err = s.Audit(ctx, accountview.AuditSearch{Account: id, Limit: latest})
	return details, err
}
