package store

import (
	"time"

	"gorm.io/gorm"

	"opportunity.internal/services/authquota/internal/mail"
)

// notify posts a mail to the person of an account, in the transaction of its cause. It does nothing if the account has no
// person.
func (s *Store) notify(tx *gorm.DB, now time.Time, id, template string, data map[string]string) error {
	var to []string
	err := tx.Raw("SELECT email FROM people WHERE account_id = ? AND closed_at IS NULL", id).Scan(&to).Error
	if err != nil || len(to) == 0 {
		return err
	}
	return s.post(tx, now, mail.Message{To: to[0], Template: template, Data: data})
}
