package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// lockPerson reads the person of an account and locks the row until tx ends. On SQLite the transaction itself is the lock.
func lockPerson(tx *gorm.DB, accountID string) (personRow, error) {
	var row personRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	return row, err
}

// rotateSecret gives a full session a new secret after its person proved a factor. The old secret stays valid during
// session.Overlap, but without the proof, so a stolen one gains nothing.
func rotateSecret(tx *gorm.DB, now time.Time, current session.Session) (secret string, err error) {
	secret = session.Secret()
	update := tx.Model(&sessionRow{}).
		Where("id = ? AND account_id = ? AND stage = ? AND ended_at IS NULL", current.ID, current.Account, string(session.Full)).
		Updates(map[string]any{"token_hash": session.Hash(secret), "prev_hash": gorm.Expr("token_hash"), "authenticated_at": database.Micros(now)})
	if update.Error == nil && update.RowsAffected == 0 {
		return "", problem.New(problem.NotFound, "This session has ended. Sign in again.")
	}
	return secret, update.Error
}

// confirmBy records a proven factor for a session, which use marks as used, and forgives the attempts.
func (s *Store) confirmBy(ctx context.Context, current session.Session, factor string, tried []throttle.Subject,
	use func(tx *gorm.DB, now time.Time) error) (secret string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := use(tx, now); err != nil {
			return err
		}
		if secret, err = rotateSecret(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			s.forgive(tx, tried),
			record(tx, now, current.Account, "person.confirm", current.ID, map[string]any{"factor": factor}))
	})
	return secret, err
}

// ConfirmByPassword confirms a session with a valid password. hash is the hash that it was verified against.
func (s *Store) ConfirmByPassword(ctx context.Context, current session.Session, hash string, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "password", tried, func(tx *gorm.DB, _ time.Time) error {
		person, err := lockPerson(tx, current.Account)
		if err == nil && person.PasswordHash != hash {
			err = errChanged
		}
		return err
	})
}

// ConfirmByCode confirms a session with the step of a valid code, and marks it as used.
func (s *Store) ConfirmByCode(ctx context.Context, current session.Session, step int64, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "authenticator", tried, func(tx *gorm.DB, now time.Time) error {
		if err := useStep(tx, current.Account, step); err != nil {
			return err
		}
		return s.keepFactor(tx, now, current.Account) // it is not lost
	})
}

// ConfirmByPasskey confirms a session with a verified passkey. It returns passkey.ErrRejected if the passkey was removed or
// cloned.
func (s *Store) ConfirmByPasskey(ctx context.Context, current session.Session, used passkey.Passkey, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "passkey", tried, func(tx *gorm.DB, now time.Time) error {
		if err := usePasskey(tx, used); err != nil {
			return err
		}
		return s.keepFactor(tx, now, current.Account)
	})
}

// ConfirmFailed records a failed confirmation of a session.
func (s *Store) ConfirmFailed(ctx context.Context, current session.Session, factor string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		return record(tx, now, current.Account, "person.confirm_failed", current.ID, map[string]any{"factor": factor})
	})
}

// errChanged is returned when a concurrent change was made first.
var errChanged = problem.New(problem.InvalidParameter, "This was changed in the meantime. Reload the page.")

// PasswordHash returns the hash of an account's password.
func (s *Store) PasswordHash(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", account.NotFound()
	}
	return row.PasswordHash, database.Outage(err)
}

// ChangePassword replaces the password with hash before, ends all other sessions and gives this one a new secret. Links for a
// forgotten password or a new address stop working. The second factor stays.
func (s *Store) ChangePassword(ctx context.Context, current session.Session, before, after string, tried ...throttle.Subject) (secret string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		update := tx.Model(&personRow{}).Where("account_id = ? AND password_hash = ? AND closed_at IS NULL", current.Account, before).
			Update("password_hash", after)
		if update.Error == nil && update.RowsAffected == 0 {
			return errChanged
		}
		if update.Error != nil {
			return update.Error
		}
		if secret, err = s.endOtherSessions(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			endLinks(tx, now, current.Account, link.Reset),
			endAddressChange(tx, now, current.Account),
			s.keepFactor(tx, now, current.Account),
			s.forgive(tx, tried),
			record(tx, now, current.Account, "person.password_change", current.Account, map[string]any{"by": "password"}),
			s.notify(tx, now, current.Account, "password-changed", nil))
	})
	return secret, err
}

// endOtherSessions ends all sessions of an account but one, and gives that one a new secret. The old secret stops working
// immediately.
func (s *Store) endOtherSessions(tx *gorm.DB, now time.Time, current session.Session) (secret string, err error) {
	if _, err := end(tx, now, "account_id = ? AND id <> ?", current.Account, current.ID); err != nil {
		return "", err
	}
	secret, err = rotateSecret(tx, now, current)
	return secret, errors.Join(err, tx.Model(&sessionRow{}).Where("id = ?", current.ID).Update("prev_hash", nil).Error)
}
