package dbtx

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/notices"
)

// ChoiceRow is a person's choice about a kind of notice.
type ChoiceRow struct {
	AccountID string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	Wanted    bool
}

// TableName implements gorm's Tabler.
func (ChoiceRow) TableName() string { return "notice_choices" }

// Wanted returns which notices an account gets: the person's choices, and the defaults of the others.
func Wanted(db *gorm.DB, accountID string) (map[notices.Kind]bool, error) {
	wanted := make(map[notices.Kind]bool, len(notices.All))
	for _, c := range notices.All {
		wanted[c.Kind] = c.Default
	}
	var rows []ChoiceRow
	err := db.Find(&rows, "account_id = ?", accountID).Error
	for _, r := range rows {
		wanted[notices.Kind(r.Kind)] = r.Wanted
	}
	return wanted, err
}

// NotifyWanted is Notify for a kind of notice that the person can choose.
func (tx *Tx) NotifyWanted(kind notices.Kind, accountID, template string, data map[string]string) error {
	wanted, err := Wanted(tx.DB, accountID)
	if err != nil || !wanted[kind] {
		return err
	}
	return tx.Notify(accountID, template, data)
}

type noticeEventRow struct {
	AccountID string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	Event     string `gorm:"primaryKey"`
	SentAt    int64
}

func (noticeEventRow) TableName() string { return "notice_events" }

// ClaimNotice reports whether the notice about an event was not claimed before. Concurrent claims wait for each other, so one of them
// succeeds, if its tx is committed.
func (tx *Tx) ClaimNotice(kind notices.Kind, accountID, event string) (bool, error) {
	claim := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&noticeEventRow{accountID, string(kind), event, database.Micros(tx.Now)})
	return claim.RowsAffected > 0, claim.Error
}

// DeleteOldNotices forgets which notices were sent long ago.
func (tx *Tx) DeleteOldNotices() error {
	return tx.Where("sent_at < ?", database.Micros(tx.Now.Add(-notices.Retention))).Delete(&noticeEventRow{}).Error
}
