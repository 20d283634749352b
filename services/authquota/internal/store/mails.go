package store

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

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
}

func (mailRow) TableName() string { return "mails" }

// post writes a mail to the outbox in the transaction of its cause, so that it is sent only if that is committed. The mail is
// sealed, address included, because it may contain a link that gives access to an account.
func (s *Store) post(tx *gorm.DB, now time.Time, m mail.Message) error {
	letter, err := s.writer.Write(m)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	id := mail.NewID()
	return tx.Create(&mailRow{
		ID: id, Template: m.Template, Letter: s.box.Seal(plain, sealedMail(id)),
		CreatedAt: database.Micros(now), DueAt: database.Micros(now),
	}).Error
}

func sealedMail(id string) string { return "mail " + id }

// ClaimMail claims the mail that has been due longest, for the duration of the lease. ok is false if none is due. If the
// claimer stops, the mail can be claimed again: it may be sent twice, but is never lost.
func (s *Store) ClaimMail(ctx context.Context, lease time.Duration) (claimed mail.Posted, ok bool, err error) {
	now := s.now()
	var rows []mailRow
	// Postgres evaluates the outer condition again after a concurrent claim of the same row commits.
	err = s.db.WithContext(ctx).Raw(`
		UPDATE mails SET due_at = ?, attempts = attempts + 1
		WHERE id = (SELECT id FROM mails WHERE due_at <= ? ORDER BY due_at, id LIMIT 1 `+s.skipLocked()+`) AND due_at <= ?
		RETURNING *`, database.Micros(now.Add(lease)), database.Micros(now), database.Micros(now)).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return mail.Posted{}, false, database.Outage(err)
	}
	r := rows[0]
	claimed = mail.Posted{ID: r.ID, Template: r.Template, At: database.FromMicros(r.CreatedAt), Attempts: r.Attempts}
	plain, err := s.box.Open(r.Letter, sealedMail(r.ID))
	if err == nil {
		err = json.Unmarshal(plain, &claimed.Letter)
	}
	claimed.Sealed = err != nil
	return claimed, true, nil
}

// skipLocked lets concurrent claims skip each other's rows. SQLite has a single writer.
func (s *Store) skipLocked() string {
	if s.db.Dialect == database.Postgres {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// DeferMail sets when a claimed mail is due again.
func (s *Store) DeferMail(ctx context.Context, id string, due time.Time) error {
	return database.Outage(s.db.WithContext(ctx).Model(&mailRow{}).Where("id = ?", id).Update("due_at", database.Micros(due)).Error)
}

// DeleteMail deletes a mail that was sent or has failed permanently.
func (s *Store) DeleteMail(ctx context.Context, id string) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&mailRow{}, "id = ?", id).Error)
}

// PendingMails returns the number of mails in the outbox, including those being sent, and when the oldest was written, or the
// zero time.
func (s *Store) PendingMails(ctx context.Context) (n int, oldest time.Time, err error) {
	var waiting struct {
		Mails  int
		Oldest int64
	}
	err = s.db.WithContext(ctx).Model(&mailRow{}).Select("count(*) AS mails, coalesce(min(created_at), 0) AS oldest").Scan(&waiting).Error
	if waiting.Mails > 0 {
		oldest = database.FromMicros(waiting.Oldest)
	}
	return waiting.Mails, oldest, database.Outage(err)
}
