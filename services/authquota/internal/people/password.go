package people

import (
	"context"
	"errors"

	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

// PasswordHash returns the hash of an account's password.
func (s *Store) PasswordHash(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	return row.PasswordHash, accountdb.Found(err, "account")
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
		err := accountdb.Changed(tx.Model(&personRow{}).
			Where("account_id = ? AND password_hash = ? AND closed_at IS NULL", current.Account, before).
			Update("password_hash", after), errChanged)
		if err != nil {
			return "", err
		}
		secret, err := endOtherSessions(tx, current)
		if err != nil {
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

// RequestReset posts a mail with a LinkReset to an address. If no account has it, it does nothing
// in the same time.
func (s *Store) RequestReset(ctx context.Context, email string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		person, err := byEmail(tx.DB, email)
		if err != nil {
			return err
		}
		purpose, unknown := LinkReset, person.AccountID == ""
		if unknown {
			purpose = LinkUnusable
		}
		link, err := newLink(tx, purpose, person.AccountID, email)
		if err != nil {
			return err
		}
		return tx.DoUnless(unknown, func() error {
			return errors.Join(
				tx.Post(mail.Message{To: email, Template: "reset-password", Data: map[string]string{"link": link}}),
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
		// the account may have another address by now, or none
		err = accountdb.Changed(tx.Model(&personRow{}).
			Where("account_id = ? AND email = ? AND closed_at IS NULL", l.Account, l.Email).
			Update("password_hash", passwordHash), errLinkGone)
		if err != nil {
			return err
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
