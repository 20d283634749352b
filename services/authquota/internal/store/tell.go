package store

import (
	"time"

	"gorm.io/gorm"

	"opportunity.internal/services/authquota/internal/mail"
)

// tell posts a mail to the person who signs in to an account, in the transaction of what it tells. An account that an operator made
// has nobody to tell.
func (s *Store) tell(tx *gorm.DB, now time.Time, id, template string, data map[string]string) error {
	var to []string
	err := tx.Raw("SELECT email FROM people WHERE account_id = ? AND closed_at IS NULL", id).Scan(&to).Error
	if err != nil || len(to) == 0 {
		return err
	}
	return s.post(tx, now, mail.Message{To: to[0], Template: template, Data: data})
}
