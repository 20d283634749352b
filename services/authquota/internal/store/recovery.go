package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
)

// RenewCodes replaces the recovery codes of an account.
func (s *Store) RenewCodes(ctx context.Context, accountID string, hashes []string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := replaceCodes(tx, accountID, hashes); err != nil {
			return err
		}
		return errors.Join(
			record(tx, now, accountID, "recovery_code.renew", accountID, map[string]any{}),
			s.notify(tx, now, accountID, "factor-changed", map[string]string{"what": "new recovery codes"}))
	})
}

// RequestNewAuthenticator stores the two links for a lost authenticator and posts the mail. Earlier links for it stop working.
func (s *Store) RequestNewAuthenticator(ctx context.Context, accountID string, lost, keep link.Fresh, message mail.Message) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := endLinks(tx, now, accountID, link.Lost, link.Keep); err != nil {
			return err
		}
		return errors.Join(
			saveLink(tx, lost), saveLink(tx, keep),
			record(tx, now, accountID, "factor.reset_asked", accountID, map[string]any{}),
			s.post(tx, now, message))
	})
}

// BeginReset starts the waiting period for removing the authenticator, by a link.Lost, and returns its end.
func (s *Store) BeginReset(ctx context.Context, secret string) (at time.Time, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Lost)
		if err != nil {
			return err
		}
		at = l.RequestedAt().Add(link.ResetWait) // as the mail says
		update := tx.Model(&personRow{}).Where("account_id = ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", l.Account).
			Update("reset_at", database.Micros(at))
		if update.Error == nil && update.RowsAffected == 0 {
			return link.Gone()
		}
		return errors.Join(update.Error,
			record(tx, now, l.Account, "factor.reset_begin", l.Account, map[string]any{"at": at}))
	})
	return at, err
}

// CancelReset ends the waiting period by a link.Keep. The authenticator stays.
func (s *Store) CancelReset(ctx context.Context, secret string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Keep)
		if err != nil {
			return err
		}
		return s.keepFactor(tx, now, l.Account)
	})
}

// KeepAuthenticator ends the waiting period on behalf of the account's person.
func (s *Store) KeepAuthenticator(ctx context.Context, accountID string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error { return s.keepFactor(tx, now, accountID) })
}

// keepFactor ends the waiting period for a new authenticator, if any, and invalidates its links.
func (s *Store) keepFactor(tx *gorm.DB, now time.Time, accountID string) error {
	if err := endLinks(tx, now, accountID, link.Lost, link.Keep); err != nil {
		return err
	}
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at IS NOT NULL", accountID).Update("reset_at", nil)
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	return record(tx, now, accountID, "factor.reset_cancel", accountID, map[string]any{})
}

// removeLost removes the second factors of an account whose waiting period is over.
func (s *Store) removeLost(tx *gorm.DB, now time.Time, accountID string) error {
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at <= ? AND closed_at IS NULL", accountID, database.Micros(now)).
		Updates(map[string]any{"totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil})
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	if err := replaceCodes(tx, accountID, nil); err != nil {
		return err
	}
	if err := tx.Delete(&passkeyRow{}, "account_id = ?", accountID).Error; err != nil { // passkeys may be on the lost device
		return err
	}
	_, err := end(tx, now, "account_id = ?", accountID)
	return errors.Join(err,
		endAddressChange(tx, now, accountID),
		endLinks(tx, now, accountID, link.Lost, link.Keep),
		record(tx, now, accountID, "factor.remove", accountID, map[string]any{"factor": "authenticator", "by": "reset"}),
		s.notify(tx, now, accountID, "authenticator-reset", nil))
}
