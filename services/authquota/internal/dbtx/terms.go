package dbtx

import (
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

// LastTerms returns the terms of use that an account accepted last, or nil.
func LastTerms(db *gorm.DB, accountID string) (*account.Terms, error) {
	var rows []termsRow
	err := db.Order("accepted_at DESC, version DESC").Limit(1).Find(&rows, "account_id = ?", accountID).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &account.Terms{Version: rows[0].Version, AcceptedAt: database.FromMicros(rows[0].AcceptedAt)}, nil
}

// AcceptTerms records that an account, which must be locked, accepts the terms of use. It returns account.TermsNotAccepted if the
// account has not accepted the version in effect, neither now nor last.
func (tx *Tx) AcceptTerms(accountID string, terms account.Acceptance) error {
	last, err := LastTerms(tx.DB, accountID)
	switch {
	case err != nil:
		return err
	case last != nil && last.Version == terms.Version:
		return nil
	case !terms.Accepted:
		return account.TermsNotAccepted()
	}
	tx.Changed("terms_acceptances", "account_id", One(accountID))
	row := termsRow{AccountID: accountID, Version: terms.Version, AcceptedAt: database.Micros(tx.Now)}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return err
	}
	return tx.Record(accountID, "terms.accept", accountID, map[string]any{"version": terms.Version})
}
