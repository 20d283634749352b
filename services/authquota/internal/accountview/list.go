package accountview

import (
	"context"
	"errors"
	"strings"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Accounts returns a page of the accounts that match the search, in order of creation. more reports whether another page
// follows.
func (s *Store) Accounts(ctx context.Context, search Search) (listed []Listed, more bool, err error) {
	query := `
		SELECT a.*, CASE WHEN p.closed_at IS NULL THEN COALESCE(p.email, '') ELSE '' END AS email, p.closed_at, COALESCE(u.calls, 0) AS used_today
		FROM accounts a LEFT JOIN usage_days u ON u.account_id = a.id AND u.day = ?
			LEFT JOIN people p ON p.account_id = a.id
		WHERE a.id > ?`
	args := []any{counter.DayOf(s.db.Now()), search.After}
	if search.Email != "" {
		query += ` AND p.closed_at IS NULL AND p.email LIKE ? ESCAPE '!'`
		part := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(search.Email))
		args = append(args, "%"+part+"%")
	}
	var rows []struct {
		Row       account.Row `gorm:"embedded"`
		Email     string
		ClosedAt  *int64
		UsedToday int
	}
	err = s.db.WithContext(ctx).Raw(query+" ORDER BY a.id LIMIT ?", append(args, search.Limit+1)...).Scan(&rows).Error
	if more = len(rows) > search.Limit; more {
		rows = rows[:search.Limit]
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Row.ID
	}
	paid, paidErr := account.Paid(s.db.WithContext(ctx), ids...)
	active, activeErr := s.keys.ActiveKeys(ctx, ids)
	listed = make([]Listed, len(rows))
	for i, r := range rows {
		listed[i] = Listed{Account: r.Row.Account(), Email: r.Email, UsedToday: r.UsedToday, ActiveKeys: active[r.Row.ID]}
		listed[i].Paid, listed[i].ClosedAt = paid[r.Row.ID], dbtx.Instant(r.ClosedAt)
	}
	return listed, more, database.Outage(errors.Join(err, paidErr, activeErr))
}
