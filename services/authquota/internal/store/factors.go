package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// seedContext binds a sealed seed to its account.
func seedContext(accountID string) string { return "totp seed " + accountID }

// Seed returns the seed of an account's authenticator.
func (s *Store) Seed(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).Take(&row, "account_id = ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", account.NotFound()
	}
	if err != nil {
		return "", database.Outage(err)
	}
	plain, err := s.box.Open(row.TOTPSeed, seedContext(accountID))
	if err == nil && !s.box.Current(row.TOTPSeed) {
		err = database.Outage(s.db.WithContext(ctx).Model(&personRow{}).Where("account_id = ? AND totp_seed = ?", accountID, row.TOTPSeed).
			Update("totp_seed", s.box.Seal(plain, seedContext(accountID))).Error)
	}
	return string(plain), err
}

// errUsed is returned for a valid code that was used before, or by a concurrent request.
var errUsed = account.CodeUsed()

// one returns errUsed if update changed no row.
func one(update *gorm.DB) error {
	if update.Error == nil && update.RowsAffected == 0 {
		return errUsed
	}
	return update.Error
}

// SignInByCode completes signing in with the step of a valid code. One statement marks the step as used: of two browsers with
// the same code, the second gets account.CodeUsed.
func (s *Store) SignInByCode(ctx context.Context, half session.Session, entry session.Entry, step int64, tried ...throttle.Subject) (session.Admitted, error) {
	return s.signInBy(ctx, half, entry, "authenticator", tried, func(tx *gorm.DB, _ time.Time) error {
		return useStep(tx, half.Account, step)
	})
}

// useStep marks the step of a valid code as used.
func useStep(tx *gorm.DB, accountID string, step int64) error {
	return one(tx.Model(&personRow{}).
		Where("account_id = ? AND totp_last_step < ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", accountID, step).
		Update("totp_last_step", step))
}

// SignInByRecoveryCode completes signing in with a recovery code and marks it as used. It returns account.CodeUsed for an
// invalid code.
func (s *Store) SignInByRecoveryCode(ctx context.Context, half session.Session, entry session.Entry, hash string, tried ...throttle.Subject) (session.Admitted, error) {
	return s.signInBy(ctx, half, entry, "recovery code", tried, func(tx *gorm.DB, now time.Time) error {
		return s.useRecoveryCode(tx, now, half.Account, hash)
	})
}

func (s *Store) useRecoveryCode(tx *gorm.DB, now time.Time, accountID, hash string) error {
	err := one(tx.Model(&codeRow{}).Where("account_id = ? AND hash = ? AND used_at IS NULL", accountID, hash).
		Update("used_at", database.Micros(now)))
	if err != nil {
		return err
	}
	var left int64
	if err := tx.Model(&codeRow{}).Where("account_id = ? AND used_at IS NULL", accountID).Count(&left).Error; err != nil {
		return err
	}
	return errors.Join(
		record(tx, now, accountID, "recovery_code.use", accountID, map[string]any{"left": left}),
		s.notify(tx, now, accountID, "recovery-code-used", map[string]string{"left": strconv.FormatInt(left, 10)}))
}

// signInBy completes signing in with a second factor, which use marks as used.
func (s *Store) signInBy(ctx context.Context, half session.Session, entry session.Entry, factor string, tried []throttle.Subject,
	use func(tx *gorm.DB, now time.Time) error) (admitted session.Admitted, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := use(tx, now); err != nil {
			return err
		}
		if err := s.forgive(tx, tried); err != nil {
			return err
		}
		admitted, err = s.complete(tx, now, half, entry, factor)
		return err
	})
	return admitted, err
}

// complete replaces a halfway session by a full one, with a new ID and a new secret. It also cancels the removal of a lost
// authenticator, because the person still has a second factor.
func (s *Store) complete(tx *gorm.DB, now time.Time, half session.Session, entry session.Entry, factor string) (session.Admitted, error) {
	n, err := end(tx, now, "id = ? AND stage = ?", half.ID, string(session.Halfway))
	if err == nil && n == 0 {
		err = errUsed
	}
	if err != nil {
		return session.Admitted{}, err
	}
	device, known, err := rememberDevice(tx, now, half.Account, entry.Device)
	if err != nil {
		return session.Admitted{}, err
	}
	entry.Before, entry.Device = "", device // the halfway session has already ended
	admitted, err := startSession(tx, now, half.Account, session.Full, session.Life, entry)
	if err != nil {
		return admitted, err
	}
	if !known && factor != setUp {
		err = s.notify(tx, now, half.Account, "new-sign-in", map[string]string{
			"when": mailTime(now), "agent": entry.Client.Agent, "network": entry.Client.Network,
		})
	}
	return admitted, errors.Join(err,
		s.keepFactor(tx, now, half.Account),
		record(tx, now, half.Account, "person.sign_in", half.Account, map[string]any{
			"factor": factor, "agent": entry.Client.Agent, "network": entry.Client.Network,
		}))
}

func mailTime(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

type codeRow struct {
	AccountID string `gorm:"primaryKey"`
	Hash      string `gorm:"primaryKey"`
	UsedAt    *int64
}

func (codeRow) TableName() string { return "recovery_codes" }

// replaceCodes replaces all recovery codes of an account.
func replaceCodes(tx *gorm.DB, accountID string, hashes []string) error {
	rows := make([]codeRow, len(hashes))
	for i, h := range hashes {
		rows[i] = codeRow{AccountID: accountID, Hash: h}
	}
	err := tx.Delete(&codeRow{}, "account_id = ?", accountID).Error
	if err == nil && len(rows) > 0 {
		err = tx.Create(&rows).Error
	}
	return err
}
