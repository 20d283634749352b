package store

import (
	"context"
	"errors"
	"strings"

	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/session"
)

// Accounts returns a page of the accounts that match the search, in order of creation. more reports whether another page
// follows.
func (s *Store) Accounts(ctx context.Context, search account.Search) (listed []account.Listed, more bool, err error) {
	now := s.now()
	query := `
		SELECT a.*, CASE WHEN p.closed_at IS NULL THEN COALESCE(p.email, '') ELSE '' END AS email, p.closed_at, COALESCE(u.calls, 0) AS used_today,
			(SELECT count(*) FROM api_keys k WHERE k.account_id = a.id AND ` + counts + `) AS active_keys
		FROM accounts a LEFT JOIN usage_days u ON u.account_id = a.id AND u.day = ?
			LEFT JOIN people p ON p.account_id = a.id
		WHERE a.id > ?`
	args := []any{database.Micros(now), counter.DayOf(now), search.After}
	if search.Email != "" {
		query += ` AND p.closed_at IS NULL AND p.email LIKE ? ESCAPE '!'`
		part := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(search.Email))
		args = append(args, "%"+part+"%")
	}
	var rows []struct {
		Row        accountRow `gorm:"embedded"`
		Email      string
		ClosedAt   *int64
		UsedToday  int
		ActiveKeys int
	}
	err = s.db.WithContext(ctx).Raw(query+" ORDER BY a.id LIMIT ?", append(args, search.Limit+1)...).Scan(&rows).Error
	if more = len(rows) > search.Limit; more {
		rows = rows[:search.Limit]
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Row.ID
	}
	paid, wrong := paidBy(s.db.WithContext(ctx), ids...)
	err = errors.Join(err, wrong)
	listed = make([]account.Listed, len(rows))
	for i, r := range rows {
		listed[i] = account.Listed{Account: r.Row.toAccount(), Email: r.Email, UsedToday: r.UsedToday, ActiveKeys: r.ActiveKeys}
		listed[i].Paid, listed[i].ClosedAt = paid[r.Row.ID], instant(r.ClosedAt)
	}
	return listed, more, database.Outage(err)
}

// latest is the number of audit log entries in account details.
const latest = 20

// Account returns the details of an account.
func (s *Store) Account(ctx context.Context, id string) (account.Details, error) {
	db, now := s.db.WithContext(ctx), s.now().UTC()
	var row accountRow
	err := db.Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return account.Details{}, account.NotFound()
	}
	if err != nil {
		return account.Details{}, database.Outage(err)
	}
	a, err := row.withPaid(db)
	if err != nil {
		return account.Details{}, database.Outage(err)
	}
	seen := account.Details{Account: a}
	var usage []int
	var living int64
	var requests []requestRow
	var person []personRow
	var codes, passkeys int64
	err = errors.Join(
		db.Find(&person, "account_id = ?", id).Error,
		db.Table("recovery_codes").Where("account_id = ? AND used_at IS NULL", id).Count(&codes).Error,
		db.Table("passkeys").Where("account_id = ?", id).Count(&passkeys).Error,
		db.Model(&sessionRow{}).Where("account_id = ? AND ended_at IS NULL AND expires_at > ? AND seen_at > ?",
			id, database.Micros(now), database.Micros(now.Add(-session.Idle))).Count(&living).Error,
		db.Raw("SELECT calls FROM usage_days WHERE day = ? AND account_id = ?", counter.DayOf(now), id).Scan(&usage).Error,
		db.Order("asked_at, id").Find(&requests, "account_id = ? AND state IN ?", id, openStates).Error,
	)
	if err != nil {
		return seen, database.Outage(err)
	}
	for _, p := range person {
		seen.ClosedAt = instant(p.ClosedAt)
		seen.Person = &account.Person{
			Account: id, AuthenticatorConfirmed: p.TOTPConfirmedAt != nil, RecoveryCodesLeft: int(codes), ResetAt: instant(p.ResetAt),
			Standing: a.Standing, Tier: a.TierAt(now), SuspendedAt: instant(row.SuspendedAt), CreatedAt: database.FromMicros(p.CreatedAt),
		}
		if seen.Person.Terms, err = lastTerms(db, id); err != nil {
			return seen, database.Outage(err)
		}
		if p.ClosedAt == nil { // closing replaces the address by a placeholder
			seen.Person.Email = p.Email
		}
	}
	for _, calls := range usage {
		seen.UsedToday = calls
	}
	seen.Sessions, seen.Passkeys, seen.Requests = int(living), int(passkeys), toRequests(requests)
	if seen.Keys, _, err = s.Keys(ctx, id, account.Page{}); err != nil {
		return seen, err
	}
	seen.Audit, _, err = s.Audit(ctx, account.AuditSearch{Account: id, Limit: latest})
	return seen, err
}
