package store

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

type termsRow struct {
	AccountID  string `gorm:"primaryKey"`
	Version    string `gorm:"primaryKey"`
	AcceptedAt int64
}

func (termsRow) TableName() string { return "terms_acceptances" }

// lastTerms returns what an account accepted last, or nil.
func lastTerms(tx *gorm.DB, id string) (*account.Terms, error) {
	var rows []termsRow
	err := tx.Order("accepted_at DESC, version DESC").Limit(1).Find(&rows, "account_id = ?", id).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &account.Terms{Version: rows[0].Version, AcceptedAt: database.FromMicros(rows[0].AcceptedAt)}, nil
}

// acceptTerms records that an account, which tx has locked, accepts the terms of use. It returns account.TermsNotAccepted if the account
// has not accepted the version in effect, neither now nor last.
func acceptTerms(tx *gorm.DB, now time.Time, id string, terms account.Acceptance) error {
	last, err := lastTerms(tx, id)
	switch {
	case err != nil:
		return err
	case last != nil && last.Version == terms.Version:
		return nil
	case !terms.Accepted:
		return account.TermsNotAccepted()
	}
	row := termsRow{AccountID: id, Version: terms.Version, AcceptedAt: database.Micros(now)}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return err
	}
	return record(tx, now, id, "terms.accept", id, map[string]any{"version": terms.Version})
}
