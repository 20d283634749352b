package dbtx

import (
	"encoding/json"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/journal"
)

// AuditRow is an entry of the audit log.
type AuditRow struct {
	ID      int64 `gorm:"primaryKey"`
	At      int64
	Actor   string
	Action  string
	Subject string
	Detail  string // JSON
}

// TableName implements gorm's Tabler.
func (AuditRow) TableName() string { return "audit_log" }

// Record writes the audit log entry of a change. The detail must not contain a key or its digest.
func (tx *Tx) Record(actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	tx.audit = append(tx.audit, journal.Entry{Act: journal.Act{Actor: actor, Action: action, Subject: subject}, Detail: encoded})
	return tx.Create(&AuditRow{At: database.Micros(tx.Now), Actor: actor, Action: action, Subject: subject, Detail: string(encoded)}).Error
}
