package people

import (
	"context"
	"errors"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/mail"
)

// CloseAccount closes an account on behalf of its person. It revokes the keys, ends the sessions,
// deletes personal data and frees the email address. Usage statistics stay, without personal data.
// Package closing cancels the plan.
func (s *Store) CloseAccount(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		closed, err := account.Lock(tx, accountID)
		if err != nil {
			return err
		}
		if closed.SuspendedAt != nil { // otherwise the address could be used for a new account
			return Suspended()
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return err
		}
		keys, err := keys.EndAll(tx, accountID)
		if err != nil {
			return err
		}
		for _, table := range []string{"recovery_codes", "passkeys", "devices"} {
			if err := tx.Exec("DELETE FROM "+table+" WHERE account_id = ?", accountID).Error; err != nil {
				return err
			}
		}
		if err := tx.Delete(&linkRow{}, "account_id = ? OR email = ?", accountID, person.Email).Error; err != nil {
			return err
		}
		if _, err := end(tx, "account_id = ?", accountID); err != nil {
			return err
		}
		tx.Touched(accountdb.Epoch{Account: accountID, State: counter.ClosedState})
		template, pays := "account-closed", closed.Pays(tx.Now)
		if pays {
			template = "account-closed-plan"
		}
		return errors.Join(
			tx.Exec("UPDATE sessions SET agent = '', network = '' WHERE account_id = ?", accountID).Error,
			tx.Model(&personRow{}).Where("account_id = ?", accountID).Updates(map[string]any{
				"email": "closed:" + accountID, "password_hash": "", "totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil,
				"closed_at": database.Micros(tx.Now),
			}).Error,
			tx.Record(accountID, "account.close", accountID, map[string]any{"keys": keys, "plan": pays}),
			tx.Post(mail.Message{To: person.Email, Template: template}))
	})
}
