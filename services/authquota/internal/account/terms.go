package account

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Terms is a version of the terms of use that an account accepted.
type Terms struct {
	Version    string
	AcceptedAt time.Time
}

// Acceptance is a form's reply to the terms of use.
type Acceptance struct {
	Version  string // in effect
	Accepted bool   // the form showed this version and it was accepted
}

// TermsNotAccepted returns the error for a key whose account has not accepted the terms of use in
// effect.
func TermsNotAccepted() error {
	return problem.New(problem.InvalidParameter, "Accept the terms of use to get a key.")
}

type termsRow struct {
	AccountID  string `gorm:"primaryKey"`
	Version    string `gorm:"primaryKey"`
	AcceptedAt int64
}

func (termsRow) TableName() string { return "terms_acceptances" }

// LastTerms returns the terms of use that an account accepted last, or nil.
func LastTerms(db *gorm.DB, accountID string) (*Terms, error) {
	var rows []termsRow
	err := db.Order("accepted_at DESC, version DESC").Limit(1).Find(&rows, "account_id = ?", accountID).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &Terms{Version: rows[0].Version, AcceptedAt: database.FromMicros(rows[0].AcceptedAt)}, nil
}

// AcceptTerms records that an account, which must be locked, accepts the terms of use. It returns
// TermsNotAccepted if the account has not accepted the version in effect, neither now nor last.
func AcceptTerms(tx *accountdb.Tx, accountID string, terms Acceptance) error {
	last, err := LastTerms(tx.DB, accountID)
	switch {
	case err != nil:
		return err
	case last != nil && last.Version == terms.Version:
		return nil
	case !terms.Accepted:
		return TermsNotAccepted()
	}
	row := termsRow{AccountID: accountID, Version: terms.Version, AcceptedAt: database.Micros(tx.Now)}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return err
	}
	return tx.Record(accountID, "terms.accept", accountID, map[string]any{"version": terms.Version})
}
