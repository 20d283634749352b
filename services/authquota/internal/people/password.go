package people

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/mail"
)

// PasswordHash returns the hash of an account's password.
func (s *Store) PasswordHash(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", account.NotFound()
	}
	return row.PasswordHash, database.Outage(err)
}

// ChangePassword replaces the password with hash before, ends all other sessions and gives this one
// a new secret. Links for a forgotten password or a new address stop working. The second factor
// stays.
func (s *Store) ChangePassword(ctx context.Context, current Session, before, after string,
	tried ...AttemptSubject) (secret string, err error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (string, error) {
		if err := tx.Remember(current.Account); err != nil {
			return "", err
		}
		update := tx.Model(&personRow{}).
			Where("account_id = ? AND password_hash = ? AND closed_at IS NULL", current.Account, before).
			Update("password_hash", after)
		if update.Error == nil && update.RowsAffected == 0 {
			return "", errChanged
		}
		secret, err := endOtherSessions(tx, current)
		if err := errors.Join(update.Error, err); err != nil {
			return "", err
		}
		return secret, errors.Join(
			endLinks(tx, current.Account, LinkReset),
			endAddressChange(tx, current.Account),
			keepFactor(tx, current.Account),
			forgive(tx, tried),
			tx.Record(current.Account, "person.password_change", current.Account, map[string]any{"by": "password"}),
			tx.Notify(current.Account, "password-changed", nil))
	})
}

// RequestReset stores a LinkReset for the account with its address and posts the mail. If no
// account has the address, it does nothing in the same time.
func (s *Store) RequestReset(ctx context.Context, l FreshLink, message mail.Message) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		person, err := byEmail(tx.DB, l.Email)
		if err != nil {
			return err
		}
		nobody := person.AccountID == ""
		if l.Account = person.AccountID; nobody {
			l.Purpose = LinkUnusable
		}
		if err := saveLink(tx, l); err != nil {
			return err
		}
		return tx.DoUnless(nobody, func() error {
			return errors.Join(
				tx.Post(message),
				tx.Record(person.AccountID, "person.password_reset_asked", person.AccountID, map[string]any{}))
		})
	})
}

// ResetPassword sets a new password by a LinkReset and ends all sessions of the account, and the
// browser's session, even of another account. The second factor stays.
func (s *Store) ResetPassword(ctx context.Context, secret, passwordHash string, entry Entry,
	tried ...AttemptSubject) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkReset)
		if err != nil {
			return err
		}
		update := tx.Model(&personRow{}).Where("account_id = ? AND email = ? AND closed_at IS NULL", l.Account, l.Email).
			Update("password_hash", passwordHash)
		if update.Error == nil && update.RowsAffected == 0 {
			return LinkGone() // the account has another address by now, or none
		}
		if update.Error != nil {
			return update.Error
		}
		_, err = end(tx, "account_id = ? OR token_hash = ?", l.Account, HashSecret(entry.Before))
		return errors.Join(err,
			endLinks(tx, l.Account, LinkReset),
			endAddressChange(tx, l.Account),
			keepFactor(tx, l.Account),
			forgive(tx, tried),
			tx.Record(l.Account, "person.password_change", l.Account, map[string]any{"by": "link"}),
			tx.Post(mail.Message{To: l.Email, Template: "password-changed"}))
	})
}

// confirmBy records a proven factor for a session, which use marks as used, and forgives the
// attempts.
func (s *Store) confirmBy(ctx context.Context, current Session, factor string, tried []AttemptSubject,
	use func(tx *accountdb.Tx) error) (secret string, err error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (string, error) {
		if err := use(tx); err != nil {
			return "", err
		}
		secret, err := rotateSecret(tx, current)
		if err != nil {
			return "", err
		}
		return secret, errors.Join(forgive(tx, tried),
			tx.Record(current.Account, "person.confirm", current.ID, map[string]any{"factor": factor}))
	})
}

// ConfirmByPassword confirms a session with a valid password. hash is the hash that it was verified
// against.
func (s *Store) ConfirmByPassword(ctx context.Context, current Session, hash string,
	tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "password", tried, func(tx *accountdb.Tx) error {
		person, err := lockPerson(tx, current.Account)
		if err == nil && person.PasswordHash != hash {
			err = errChanged
		}
		return err
	})
}

// ConfirmByCode confirms a session with the step of a valid code, and marks it as used.
func (s *Store) ConfirmByCode(ctx context.Context, current Session, step int64,
	tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "authenticator", tried, func(tx *accountdb.Tx) error {
		if err := useStep(tx, current.Account, step); err != nil {
			return err
		}
		return keepFactor(tx, current.Account) // it is not lost
	})
}

// ConfirmByPasskey confirms a session with a verified passkey. It returns
// credential.ErrPasskeyRejected if the passkey was removed or cloned.
func (s *Store) ConfirmByPasskey(ctx context.Context, current Session, used credential.Passkey,
	tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "passkey", tried, func(tx *accountdb.Tx) error {
		if err := usePasskey(tx, used); err != nil {
			return err
		}
		return keepFactor(tx, current.Account)
	})
}

// ConfirmFailed records a failed confirmation of a session.
func (s *Store) ConfirmFailed(ctx context.Context, current Session, factor string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		return tx.Record(current.Account, "person.confirm_failed", current.ID, map[string]any{"factor": factor})
	})
}

// errChanged is returned when a concurrent change was made first.
var errChanged = problem.New(problem.InvalidParameter, "This was changed in the meantime. Reload the page.")
