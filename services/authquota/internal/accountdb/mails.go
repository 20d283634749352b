package accountdb

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/mail"
)

type mailRow struct {
	ID        string `gorm:"primaryKey"`
	Template  string
	Letter    string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	DueAt     int64
	Attempts  int

	Recipient, Topic string // keyed hashes
	Urgent           bool
	Turn             int64
}

func (mailRow) TableName() string { return "mails" }

// turnStep is the distance between the turns of two waiting mails to one recipient, in
// microseconds. Many mails to one recipient so leave room for those to others.
const turnStep = 1_000_000

// Post writes a mail to the outbox, so that it is sent only if tx is committed. It replaces one to
// the same recipient that says the same, links aside, and was not sent yet. The mail is sealed,
// address included, because it may contain a link that gives access to an account.
func (tx *Tx) Post(m mail.Message) error {
	letter, err := tx.Mails.Write(m)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	tx.posted = true
	id, now := NewID("mail_"), database.Micros(tx.Now)
	row := mailRow{
		ID: id, Template: m.Template, Letter: tx.Box.Seal(plain, sealedMail(id)), CreatedAt: now, DueAt: now,
		Urgent:    m.Urgent(),
		Recipient: tx.Box.Fingerprint(m.To, "mail recipient"), Topic: tx.Box.Fingerprint(m.Topic(), "mail topic"),
	}
	// One that is being sent is deleted as well: its courier then has nothing to delete or defer.
	if err := tx.Delete(&mailRow{}, "recipient = ? AND topic = ?", row.Recipient, row.Topic).Error; err != nil {
		return err
	}
	err = tx.Raw("SELECT coalesce(max(turn), 0) FROM mails WHERE recipient = ?", row.Recipient).Scan(&row.Turn).Error
	row.Turn = max(now, row.Turn+turnStep)
	return errors.Join(err, tx.Create(&row).Error)
}

// Notify posts a mail to the person of an account. It does nothing if the account has no person.
func (tx *Tx) Notify(accountID, template string, data map[string]string) error {
	var to []string
	err := tx.Raw("SELECT email FROM people WHERE account_id = ? AND closed_at IS NULL", accountID).Scan(&to).Error
	if err != nil || len(to) == 0 {
		return err
	}
	return tx.Post(mail.Message{To: to[0], Template: template, Data: data})
}

// DueMails returns the number of mails of a template that are due and not being sent.
func (tx *Tx) DueMails(template string) (n int64, err error) {
	err = tx.Model(&mailRow{}).Where("template = ? AND due_at <= ?", template, database.Micros(tx.Now)).Count(&n).Error
	return n, err
}

// SealedMails are the mails in the outbox.
var SealedMails = Sealed{"mails", "id", "letter", sealedMail}

func sealedMail(id string) string { return "mail " + id }

// ClaimMail claims the due mail whose turn is first, urgent ones before others, for the duration of
// the lease. ok is false if none is due. If the claimer stops, the mail can be claimed again: it
// may be sent twice, but is never lost.
func (db *DB) ClaimMail(ctx context.Context, lease time.Duration) (claimed mail.Posted, ok bool, err error) {
	now := db.Now()
	var rows []mailRow
	// Postgres evaluates the outer condition again after a concurrent claim of the same row
	// commits.
	err = db.WithContext(ctx).Raw(`
		UPDATE mails SET due_at = ?, attempts = attempts + 1
		WHERE id = (SELECT id FROM mails WHERE due_at <= ? ORDER BY urgent DESC, turn, id LIMIT 1 `+db.skipLocked()+`) AND
			due_at <= ?
		RETURNING *`, database.Micros(now.Add(lease)), database.Micros(now), database.Micros(now)).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return mail.Posted{}, false, database.Outage(err)
	}
	r := rows[0]
	claimed = mail.Posted{ID: r.ID, Template: r.Template, At: database.FromMicros(r.CreatedAt), Attempts: r.Attempts}
	plain, err := db.Box.Open(r.Letter, sealedMail(r.ID))
	if err == nil {
		err = json.Unmarshal(plain, &claimed.Letter)
	}
	claimed.Sealed = err != nil
	return claimed, true, nil
}

// skipLocked lets concurrent claims skip each other's rows. SQLite has a single writer.
func (db *DB) skipLocked() string {
	if db.Dialect == database.Postgres {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// DeferMail sets when a claimed mail is due again.
func (db *DB) DeferMail(ctx context.Context, id string, due time.Time) error {
	return database.Outage(db.WithContext(ctx).Model(&mailRow{}).Where("id = ?", id).
		Update("due_at", database.Micros(due)).Error)
}

// DeleteMail deletes a mail that was sent or has failed permanently.
func (db *DB) DeleteMail(ctx context.Context, id string) error {
	return database.Outage(db.WithContext(ctx).Delete(&mailRow{}, "id = ?", id).Error)
}

// PendingMails returns the number of mails in the outbox, including those being sent, and when the
// oldest was written, or the zero time.
func (db *DB) PendingMails(ctx context.Context) (n int, oldest time.Time, err error) {
	var waiting struct {
		Mails  int
		Oldest time.Time `gorm:"serializer:column"`
	}
	err = db.WithContext(ctx).Model(&mailRow{}).Select("count(*) AS mails, min(created_at) AS oldest").Scan(&waiting).Error
	return waiting.Mails, waiting.Oldest, database.Outage(err)
}
