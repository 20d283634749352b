package people

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/dbtx"
)

type personRow struct {
	AccountID       string `gorm:"primaryKey"`
	Email           string
	PasswordHash    string
	TOTPSeed        string `gorm:"column:totp_seed"`
	TOTPConfirmedAt *int64 `gorm:"column:totp_confirmed_at"`
	TOTPLastStep    int64  `gorm:"column:totp_last_step"`
	ResetAt         *int64
	ClosedAt        *int64
	CreatedAt       int64 `gorm:"autoCreateTime:false"`
}

func (personRow) TableName() string { return "people" }

// Person returns the person of an account; not_found if it has none.
func (s *Store) Person(ctx context.Context, accountID string) (Person, error) {
	var rows []struct {
		Row         personRow `gorm:"embedded"`
		Tier        string
		SuspendedAt *int64
		CodesLeft   int
	}
	err := s.db.WithContext(ctx).Raw(`
		SELECT p.*, a.tier, a.suspended_at,
			(SELECT count(*) FROM recovery_codes c WHERE c.account_id = p.account_id AND c.used_at IS NULL) AS codes_left
		FROM people p JOIN accounts a ON a.id = p.account_id
		WHERE p.account_id = ? AND p.closed_at IS NULL`, accountID).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		return Person{}, account.NotFound()
	}
	if err != nil {
		return Person{}, database.Outage(err)
	}
	r := rows[0]
	paid, err := account.Paid(s.db.WithContext(ctx), accountID)
	if err != nil {
		return Person{}, database.Outage(err)
	}
	terms, err := account.LastTerms(s.db.WithContext(ctx), accountID)
	standing := account.Standing{Granted: api.Tier(r.Tier), Paid: paid[accountID]}
	return Person{
		Standing: standing, Account: r.Row.AccountID, Email: r.Row.Email, AuthenticatorConfirmed: r.Row.TOTPConfirmedAt != nil, RecoveryCodesLeft: r.CodesLeft,
		ResetAt: dbtx.Instant(r.Row.ResetAt), Tier: standing.TierAt(s.db.Now()), SuspendedAt: dbtx.Instant(r.SuspendedAt), Terms: terms,
		CreatedAt: database.FromMicros(r.Row.CreatedAt),
	}, database.Outage(err)
}

// byEmail returns the person with an e-mail address, or the zero row.
func byEmail(db *gorm.DB, email string) (personRow, error) {
	var row personRow
	err := db.Take(&row, "email = ? AND closed_at IS NULL", email).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return personRow{}, nil
	}
	return row, err
}

// lockPerson reads the person of an account and locks the row until tx ends. On SQLite the transaction itself is the lock.
func lockPerson(tx *dbtx.Tx, accountID string) (personRow, error) {
	var row personRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	return row, err
}
