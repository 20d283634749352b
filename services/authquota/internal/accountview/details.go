package accountview

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/people"
)

// latest is the number of audit log entries in account details.
const latest = 20

// Account returns the details of an account.
func (s *Store) Account(ctx context.Context, id string) (Details, error) {
	db := s.db.WithContext(ctx)
	var row account.Row
	err := db.Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Details{}, account.NotFound()
	}
	if err != nil {
		return Details{}, database.Outage(err)
	}
	a, err := row.WithPaid(db)
	if err != nil {
		return Details{}, database.Outage(err)
	}
	details := Details{Account: a}
	err = db.Raw("SELECT COALESCE(sum(calls), 0) FROM usage_days WHERE day = ? AND account_id = ?", counter.DayOf(s.db.Now()), id).
		Scan(&details.UsedToday).Error
	if err != nil {
		return details, database.Outage(err)
	}
	if err := s.describePerson(db, &details); err != nil {
		return details, err
	}
	if details.Keys, err = s.keys.OwnKeys(ctx, id); err != nil {
		return details, err
	}
	if details.Requests, err = s.keys.OpenRequests(ctx, id); err != nil {
		return details, err
	}
	details.Audit, _, err = s.Audit(ctx, AuditSearch{Account: id, Limit: latest})
	return details, err
}

// describePerson adds the person of an account to its details. The person of a closed account has no address: closing replaces it by a
// placeholder.
func (s *Store) describePerson(db *gorm.DB, of *Details) error {
	now := s.db.Now().UTC()
	var rows []struct {
		Email                     string
		ConfirmedAt               *int64
		ResetAt, ClosedAt         *int64
		CreatedAt                 int64
		Codes, Passkeys, Sessions int
	}
	err := db.Raw(`SELECT email, totp_confirmed_at AS confirmed_at, reset_at, closed_at, created_at,
			(SELECT count(*) FROM recovery_codes c WHERE c.account_id = p.account_id AND used_at IS NULL) AS codes,
			(SELECT count(*) FROM passkeys k WHERE k.account_id = p.account_id) AS passkeys,
			(SELECT count(*) FROM sessions s WHERE s.account_id = p.account_id AND ended_at IS NULL AND expires_at > ? AND seen_at > ?) AS sessions
		FROM people p WHERE account_id = ?`, database.Micros(now), database.Micros(now.Add(-people.SessionIdle)), of.ID).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return database.Outage(err)
	}
	p := rows[0]
	of.ClosedAt, of.Sessions, of.Passkeys = dbtx.Instant(p.ClosedAt), p.Sessions, p.Passkeys
	of.Person = &people.Person{
		Account: of.ID, AuthenticatorConfirmed: p.ConfirmedAt != nil, RecoveryCodesLeft: p.Codes, ResetAt: dbtx.Instant(p.ResetAt),
		Standing: of.Standing, Tier: of.TierAt(now), SuspendedAt: of.SuspendedAt, CreatedAt: database.FromMicros(p.CreatedAt),
	}
	if p.ClosedAt == nil {
		of.Person.Email = p.Email
	}
	of.Person.Terms, err = account.LastTerms(db, of.ID)
	return database.Outage(err)
}
