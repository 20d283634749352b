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
			s.tell(tx, now, accountID, "factor-changed", map[string]string{"what": "new recovery codes"}))
	})
}

// AskNewAuthenticator keeps the two links that somebody gets who says that the authenticator is lost, and posts the mail. Links that
// were sent before for this stop working.
func (s *Store) AskNewAuthenticator(ctx context.Context, accountID string, lost, keep link.Fresh, message mail.Message) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := endLinks(tx, now, accountID, link.Lost, link.Keep); err != nil {
			return err
		}
		return errors.Join(
			keepLink(tx, lost), keepLink(tx, keep),
			record(tx, now, accountID, "factor.reset_asked", accountID, map[string]any{}),
			s.post(tx, now, message))
	})
}

// BeginReset begins, by a link of the purpose link.Lost, the wait after which the authenticator is removed, and says when that is.
func (s *Store) BeginReset(ctx context.Context, secret string) (at time.Time, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Lost)
		if err != nil {
			return err
		}
		at = l.AskedAt().Add(link.ResetWait) // what the mail says
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

// CancelReset ends that wait by a link of the purpose link.Keep: the authenticator stays.
func (s *Store) CancelReset(ctx context.Context, secret string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Keep)
		if err != nil {
			return err
		}
		return s.keepFactor(tx, now, l.Account)
	})
}

// KeepAuthenticator ends that wait on behalf of an account's person.
func (s *Store) KeepAuthenticator(ctx context.Context, accountID string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error { return s.keepFactor(tx, now, accountID) })
}

// keepFactor ends the wait for a new authenticator, where there is one, and the links that belong to it.
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

// removeLost removes the second factors of an account whose wait is over.
func (s *Store) removeLost(tx *gorm.DB, now time.Time, accountID string) error {
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at <= ? AND closed_at IS NULL", accountID, database.Micros(now)).
		Updates(map[string]any{"totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil})
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	if err := replaceCodes(tx, accountID, nil); err != nil {
		return err
	}
	if err := tx.Delete(&passkeyRow{}, "account_id = ?", accountID).Error; err != nil { // they may be on what was lost
		return err
	}
	_, err := end(tx, now, "account_id = ?", accountID)
	return errors.Join(err,
		endAddressChange(tx, now, accountID),
		endLinks(tx, now, accountID, link.Lost, link.Keep),
		record(tx, now, accountID, "factor.remove", accountID, map[string]any{"factor": "authenticator", "by": "reset"}),
		s.tell(tx, now, accountID, "authenticator-reset", nil))
}
