package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/mail"
)

// CloseAccount closes an account on behalf of its person. It revokes the keys, ends the sessions, deletes personal data and
// frees the e-mail address. Usage statistics stay, without personal data. Package closing cancels the plan.
func (s *Store) CloseAccount(ctx context.Context, accountID string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		closed, err := lockAccount(tx, accountID)
		if err != nil {
			return err
		}
		if closed.SuspendedAt != nil { // otherwise the address could be used for a new account
			return account.ClosedLater()
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return err
		}
		var keys []keyRow
		err = tx.Model(&keys).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}}}).
			Where("account_id = ? AND revoked_at IS NULL AND expires_at > ?", accountID, database.Micros(now)).
			Update("revoked_at", database.Micros(now)).Error
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := record(tx, now, accountID, "key.revoke", k.ID, map[string]any{"account": accountID}); err != nil {
				return err
			}
		}
		for _, table := range []string{"recovery_codes", "passkeys", "devices"} {
			if err := tx.Exec("DELETE FROM "+table+" WHERE account_id = ?", accountID).Error; err != nil {
				return err
			}
		}
		if err := tx.Delete(&linkRow{}, "account_id = ? OR email = ?", accountID, person.Email).Error; err != nil {
			return err
		}
		if _, err := end(tx, now, "account_id = ?", accountID); err != nil {
			return err
		}
		template, pays := "account-closed", closed.Pays(now)
		if pays {
			template = "account-closed-plan"
		}
		return errors.Join(
			tx.Exec("UPDATE sessions SET agent = '', network = '' WHERE account_id = ?", accountID).Error,
			tx.Exec("UPDATE key_requests SET state = 'withdrawn', decided_at = ? WHERE account_id = ? AND state IN ('asked', 'approved')",
				database.Micros(now), accountID).Error,
			tx.Model(&personRow{}).Where("account_id = ?", accountID).Updates(map[string]any{
				"email": "closed:" + accountID, "password_hash": "", "totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil,
				"closed_at": database.Micros(now),
			}).Error,
			record(tx, now, accountID, "account.close", accountID, map[string]any{"keys": len(keys), "plan": pays}),
			queueRaise(tx, accountID),
			s.post(tx, now, mail.Message{To: person.Email, Template: template}))
	})
}
