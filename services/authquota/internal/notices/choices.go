package notices

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// choiceRow is a person's choice about a kind of notice.
type choiceRow struct {
	AccountID string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	Wanted    bool
}

// TableName implements gorm's Tabler.
func (choiceRow) TableName() string { return "notice_choices" }

// choices returns which notices an account gets: the person's choices, and the defaults of the others.
func choices(db *gorm.DB, accountID string) (map[Kind]bool, error) {
	wanted := make(map[Kind]bool, len(All))
	for _, c := range All {
		wanted[c.Kind] = c.Default
	}
	var rows []choiceRow
	err := db.Find(&rows, "account_id = ?", accountID).Error
	for _, r := range rows {
		wanted[Kind(r.Kind)] = r.Wanted
	}
	return wanted, err
}

// Notify is dbtx.Tx.Notify for a kind of notice that the person can choose.
func Notify(tx *dbtx.Tx, kind Kind, accountID, template string, data map[string]string) error {
	wanted, err := choices(tx.DB, accountID)
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

// claim reports whether the notice about an event was not claimed before. Concurrent claims wait for each other, so one of them
// succeeds, if its tx is committed.
func claim(tx *dbtx.Tx, kind Kind, accountID, event string) (bool, error) {
	insert := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&noticeEventRow{accountID, string(kind), event, database.Micros(tx.Now)})
	return insert.RowsAffected > 0, insert.Error
}
