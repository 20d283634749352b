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

// post writes a mail in the transaction of what it tells: it is sent if that is committed, and not otherwise. Its text may hold a
// link that opens an account, so it is sealed; nothing of it, nor whom it is for, can be read from the database.
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

// ClaimMail takes the mail that is due for longest; nobody else gets it for as long as the lease says. ok is false where none is
// due. Who claims it and dies leaves it to be claimed again: a mail may be sent twice, and is never lost.
func (s *Store) ClaimMail(ctx context.Context, lease time.Duration) (claimed mail.Posted, ok bool, err error) {
	now := s.now()
	var rows []mailRow
	// The outer condition is asked again, on Postgres, once another claim of the same row has been committed.
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

// skipLocked lets several senders claim at once without waiting for each other. SQLite has one writer at a time anyway.
func (s *Store) skipLocked() string {
	if s.db.Dialect == database.Postgres {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// DeferMail makes a claimed mail due later.
func (s *Store) DeferMail(ctx context.Context, id string, due time.Time) error {
	return database.Outage(s.db.WithContext(ctx).Model(&mailRow{}).Where("id = ?", id).Update("due_at", database.Micros(due)).Error)
}

// ForgetMail removes a mail, with all that it says: it was sent, or nobody tries any more.
func (s *Store) ForgetMail(ctx context.Context, id string) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&mailRow{}, "id = ?", id).Error)
}

// PendingMails is how many mails wait, those that are being sent included, and when the oldest of them was written; zero where there
// is none.
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
