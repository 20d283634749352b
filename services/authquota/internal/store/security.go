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

// lockPerson reads who signs in to an account and keeps everybody else from changing it until tx ends. On SQLite the transaction
// itself does so.
func lockPerson(tx *gorm.DB, accountID string) (personRow, error) {
	var row personRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = account.NotFound()
	}
	return row, err
}

// renew gives a full session another secret, because its person has proven something anew: a secret that somebody has seen before is
// worth nothing after it but, during the session.Overlap, what it was worth without the proof.
func renew(tx *gorm.DB, now time.Time, current session.Session) (secret string, err error) {
	secret = session.Secret()
	update := tx.Model(&sessionRow{}).
		Where("id = ? AND account_id = ? AND stage = ? AND ended_at IS NULL", current.ID, current.Account, string(session.Full)).
		Updates(map[string]any{"token_hash": session.Hash(secret), "prev_hash": gorm.Expr("token_hash"), "authenticated_at": database.Micros(now)})
	if update.Error == nil && update.RowsAffected == 0 {
		return "", problem.New(problem.NotFound, "This session has ended. Sign in again.")
	}
	return secret, update.Error
}

// confirmBy notes that a session's person has proven a factor anew, which use uses up, and forgives the tries.
func (s *Store) confirmBy(ctx context.Context, current session.Session, factor string, tried []throttle.Subject,
	use func(tx *gorm.DB, now time.Time) error) (secret string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := use(tx, now); err != nil {
			return err
		}
		if secret, err = renew(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			s.forgive(tx, tried),
			record(tx, now, current.Account, "person.confirm", current.ID, map[string]any{"factor": factor}))
	})
	return secret, err
}

// ConfirmByPassword is for a password that was right, by the hash that it was held against.
func (s *Store) ConfirmByPassword(ctx context.Context, current session.Session, hash string, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "password", tried, func(tx *gorm.DB, _ time.Time) error {
		person, err := lockPerson(tx, current.Account)
		if err == nil && person.PasswordHash != hash {
			err = errChanged
		}
		return err
	})
}

// ConfirmByCode is for a code of the authenticator that was right, by its step, which is used up.
func (s *Store) ConfirmByCode(ctx context.Context, current session.Session, step int64, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "authenticator", tried, func(tx *gorm.DB, now time.Time) error {
		if err := useStep(tx, current.Account, step); err != nil {
			return err
		}
		return s.keepFactor(tx, now, current.Account) // it is not lost
	})
}

// ConfirmByPasskey is for a passkey that was proven; passkey.ErrRefused where it is gone or was copied.
func (s *Store) ConfirmByPasskey(ctx context.Context, current session.Session, used passkey.Passkey, tried ...throttle.Subject) (secret string, err error) {
	return s.confirmBy(ctx, current, "passkey", tried, func(tx *gorm.DB, now time.Time) error {
		if err := usePasskey(tx, used); err != nil {
			return err
		}
		return s.keepFactor(tx, now, current.Account)
	})
}

// ConfirmFailed writes down that a session's person could not prove a factor anew.
func (s *Store) ConfirmFailed(ctx context.Context, current session.Session, factor string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		return record(tx, now, current.Account, "person.confirm_failed", current.ID, map[string]any{"factor": factor})
	})
}

// errChanged is the refusal of a change that another one was quicker than.
var errChanged = problem.New(problem.InvalidParameter, "This was changed in the meantime. Look again.")

// PasswordHash is what an account's password is held against.
func (s *Store) PasswordHash(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", account.NotFound()
	}
	return row.PasswordHash, database.Outage(err)
}

// ChangePassword takes another password in place of the one that was held against before, ends all other sessions and gives this one
// another secret. Links for a forgotten password and for another address stop working, and the authenticator stays.
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
		if secret, err = s.alone(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			endLinks(tx, now, current.Account, link.Reset),
			endAddressChange(tx, now, current.Account),
			s.keepFactor(tx, now, current.Account),
			s.forgive(tx, tried),
			record(tx, now, current.Account, "person.password_change", current.Account, map[string]any{"by": "password"}),
			s.tell(tx, now, current.Account, "password-changed", nil))
	})
	return secret, err
}

// alone ends all sessions of an account but one, and gives that one another secret, in place of the one before at once.
func (s *Store) alone(tx *gorm.DB, now time.Time, current session.Session) (secret string, err error) {
	if _, err := end(tx, now, "account_id = ? AND id <> ?", current.Account, current.ID); err != nil {
		return "", err
	}
	secret, err = renew(tx, now, current)
	return secret, errors.Join(err, tx.Model(&sessionRow{}).Where("id = ?", current.ID).Update("prev_hash", nil).Error)
}
