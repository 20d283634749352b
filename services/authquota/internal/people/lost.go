package people

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/mail"
)

// RequestNewAuthenticator stores the two links for a lost authenticator and posts the mail. Earlier links for it stop working.
func (s *Store) RequestNewAuthenticator(ctx context.Context, accountID string, lost, keep FreshLink, message mail.Message) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		if err := endLinks(tx, accountID, LinkLost, LinkKeep); err != nil {
			return err
		}
		return errors.Join(
			saveLink(tx, lost), saveLink(tx, keep),
			tx.Record(accountID, "factor.reset_asked", accountID, map[string]any{}),
			tx.Post(message))
	})
}

// BeginReset starts the waiting period for removing the authenticator, by a link.Lost, and returns its end.
func (s *Store) BeginReset(ctx context.Context, secret string) (at time.Time, err error) {
	err = s.db.Change(ctx, func(tx *dbtx.Tx) error {
		l, err := useLink(tx, secret, LinkLost)
		if err != nil {
			return err
		}
		tx.Changed("people", "account_id", dbtx.One(l.Account), "reset_at")
		at = l.RequestedAt().Add(ResetWait) // as the mail says
		update := tx.Model(&personRow{}).Where("account_id = ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", l.Account).
			Update("reset_at", database.Micros(at))
		if update.Error == nil && update.RowsAffected == 0 {
			return LinkGone()
		}
		return errors.Join(update.Error,
			tx.Record(l.Account, "factor.reset_begin", l.Account, map[string]any{"at": at}))
	})
	return at, err
}

// CancelReset ends the waiting period by a link.Keep. The authenticator stays.
func (s *Store) CancelReset(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		l, err := useLink(tx, secret, LinkKeep)
		if err != nil {
			return err
		}
		return keepFactor(tx, l.Account)
	})
}

// KeepAuthenticator ends the waiting period on behalf of the account's person.
func (s *Store) KeepAuthenticator(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error { return keepFactor(tx, accountID) })
}

// keepFactor ends the waiting period for a new authenticator, if any, and invalidates its links.
func keepFactor(tx *dbtx.Tx, accountID string) error {
	if err := endLinks(tx, accountID, LinkLost, LinkKeep); err != nil {
		return err
	}
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at IS NOT NULL", accountID).Update("reset_at", nil)
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	tx.Changed("people", "account_id", dbtx.One(accountID), "reset_at")
	return tx.Record(accountID, "factor.reset_cancel", accountID, map[string]any{})
}

// removeLost removes the second factors of an account whose waiting period is over.
func removeLost(tx *dbtx.Tx, accountID string) error {
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at <= ? AND closed_at IS NULL", accountID, database.Micros(tx.Now)).
		Updates(map[string]any{"totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil})
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	tx.Changed("people", "account_id", dbtx.One(accountID), "totp_seed", "totp_confirmed_at", "reset_at")
	tx.Changed("passkeys", "account_id", dbtx.One(accountID))
	if err := replaceCodes(tx, accountID, nil); err != nil {
		return err
	}
	if err := tx.Delete(&passkeyRow{}, "account_id = ?", accountID).Error; err != nil { // passkeys may be on the lost device
		return err
	}
	_, err := end(tx, "account_id = ?", accountID)
	return errors.Join(err,
		endAddressChange(tx, accountID),
		endLinks(tx, accountID, LinkLost, LinkKeep),
		tx.Record(accountID, "factor.remove", accountID, map[string]any{"factor": "authenticator", "by": "reset"}),
		tx.Notify(accountID, "authenticator-reset", nil))
}
