package notices

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/mail"
)

// Announcement is a mail from the operator to every person. ID, Kind, Subject and Text identify it:
// it is sent once.
type Announcement struct {
	ID      string `gorm:"primaryKey"`
	Kind    AnnouncementKind
	Subject string
	Text    string `gorm:"column:body"` // paragraphs, separated by empty lines
}

// AnnouncementKind is the occasion of an announcement.
type AnnouncementKind string

const (
	TermsChange AnnouncementKind = "terms"      // sent to every person
	APIChanged  AnnouncementKind = "api-change" // sent to each person who wants the notice APIChange
)

const (
	maxID      = 64
	maxSubject = 150
	maxText    = 10_000 // characters
	maxLine    = 2_000
)

var (
	slug       = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	emptyLines = regexp.MustCompile(`\n{3,}`)
)

// Check validates an announcement and returns its canonical form.
func (a Announcement) Check() (Announcement, error) {
	if len(a.ID) > maxID || !slug.MatchString(a.ID) {
		return a, problem.Invalid("id",
			fmt.Sprintf("must be at most %d lower-case letters, digits and single hyphens, such as terms-2027-01", maxID))
	}
	if a.Kind != TermsChange && a.Kind != APIChanged {
		return a, problem.Invalid("kind", fmt.Sprintf("must be %s or %s", TermsChange, APIChanged))
	}
	var err error
	if a.Subject, err = account.Line("subject", a.Subject, maxSubject); err != nil {
		return a, err
	}
	if a.Text, err = api.Lines(a.Text, maxText); err != nil {
		return a, problem.Invalid("text", err.Error())
	}
	lines := strings.Split(a.Text, "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimSpace(line); lines[i] == "" {
			continue
		}
		if lines[i], err = account.Line("text", line, maxLine); err != nil {
			return a, problem.Invalid("text", fmt.Sprintf("has an invalid line %d: a line has at most %d characters, "+
				"none of them a control or invisible character, and no API key", i+1, maxLine))
		}
	}
	a.Text = emptyLines.ReplaceAllString(strings.Join(lines, "\n"), "\n\n")
	return a, nil
}

// Mail returns the mail to an address.
func (a Announcement) Mail(to string) mail.Message {
	template := "terms-change"
	if a.Kind == APIChanged {
		template = "api-change"
	}
	return mail.Message{To: to, Template: template, Data: map[string]string{"subject": a.Subject, "text": a.Text}}
}

type announcementRow struct {
	Announcement `gorm:"embedded"`

	CreatedAt   time.Time  `gorm:"serializer:column"`
	FinishedAt  *time.Time `gorm:"serializer:column"`
	LastAccount string
	Posted      int
}

func (announcementRow) TableName() string { return "announcements" }

// Announce queues an announcement for everyone who has an account now, unless it is a dry run. It
// returns the mail, as sent to an example address, and its progress. Repeating it changes nothing.
// It returns an error if the request is invalid or the ID belongs to another announcement.
func (s *Store) Announce(ctx context.Context, actor string, request api.AnnouncementRequest) (out api.Announcement,
	err error) {
	a, err := Announcement{request.ID, AnnouncementKind(request.Kind), request.Subject, request.Text}.Check()
	if err != nil {
		return out, err
	}
	letter, err := s.db.Mails.Write(a.Mail("you@example.org"))
	if err != nil {
		return out, err
	}
	out = api.Announcement{ID: a.ID, Kind: string(a.Kind), Subject: letter.Subject, Text: letter.Text}
	if request.DryRun {
		return out, database.Outage(progress(s.db.WithContext(ctx), a, s.db.Now(), &out))
	}
	return out, s.db.Change(ctx, func(tx *accountdb.Tx) error {
		row := announcementRow{Announcement: a, CreatedAt: tx.Now}
		created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if created.Error != nil {
			return created.Error
		}
		if err := progress(tx.DB, a, tx.Now, &out); err != nil || created.RowsAffected == 0 {
			return err
		}
		return tx.Record(actor, "announcement.create", a.ID, map[string]any{
			"kind": a.Kind, "subject": a.Subject, "recipients": out.Recipients,
		})
	})
}

// progress sets how far an announcement is sent: for one that does not exist, the number of
// recipients at present.
func progress(db *gorm.DB, a Announcement, now time.Time, out *api.Announcement) error {
	row := announcementRow{Announcement: a, CreatedAt: now}
	var rows []announcementRow
	if err := db.Find(&rows, "id = ?", a.ID).Error; err != nil {
		return err
	}
	if len(rows) > 0 {
		if row = rows[0]; row.Announcement != a {
			return problem.Invalid("id", "is that of an announcement with another kind, subject or text: choose another id")
		}
		out.CreatedAt = &row.CreatedAt
	}
	out.FinishedAt, out.Posted, out.Recipients = row.FinishedAt, row.Posted, row.Posted
	if row.FinishedAt != nil {
		return nil
	}
	var remaining int64
	err := remainingRecipients(db, row).Count(&remaining).Error
	out.Recipients += int(remaining)
	return err
}

// remainingRecipients selects the people who get an announcement and whose mail was not posted yet.
func remainingRecipients(db *gorm.DB, row announcementRow) *gorm.DB {
	to := db.Table("people").Where("closed_at IS NULL AND created_at <= ? AND account_id > ?",
		database.Micros(row.CreatedAt), row.LastAccount)
	if row.Kind == APIChanged { // which is on by default
		to = to.Where("account_id NOT IN (SELECT account_id FROM notice_choices WHERE kind = ? AND NOT wanted)", APIChange)
	}
	return to
}

// PostAnnouncements posts a batch of mails of each unfinished announcement. Several processes may
// call it concurrently.
func (s *Store) PostAnnouncements(ctx context.Context) error {
	var ids []string
	err := s.db.WithContext(ctx).Model(&announcementRow{}).Where("finished_at IS NULL").Order("created_at, id").
		Pluck("id", &ids).Error
	failures := []error{database.Outage(err)}
	for _, id := range ids {
		failures = append(failures, s.db.Change(ctx, func(tx *accountdb.Tx) error { return postBatch(tx, id) }))
	}
	return errors.Join(failures...)
}

const announcementBatch = 100

// postBatch posts the next mails of an announcement once those before have left the outbox: a mail
// that a person waits for, such as a link to sign up, is never behind thousands of others.
func postBatch(tx *accountdb.Tx, id string) error {
	var locked []announcementRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Find(&locked, "id = ? AND finished_at IS NULL", id).Error
	if err != nil || len(locked) == 0 {
		return err
	}
	row := locked[0]
	if waiting, err := tx.DueMails(row.Mail("").Template); err != nil || waiting > 0 {
		return err
	}
	var to []struct{ AccountID, Email string }
	err = remainingRecipients(tx.DB, row).Select("account_id, email").Order("account_id").
		Limit(announcementBatch).Scan(&to).Error
	if err != nil {
		return err
	}
	for _, person := range to {
		if err := tx.Post(row.Mail(person.Email)); err != nil {
			return err
		}
		row.LastAccount = person.AccountID
	}
	row.Posted += len(to)
	if len(to) < announcementBatch {
		row.FinishedAt = &tx.Now
	}
	return tx.Save(&row).Error
}
