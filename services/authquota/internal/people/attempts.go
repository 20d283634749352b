package people

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

type attemptRow struct {
	Subject  string `gorm:"primaryKey"`
	Failures int
	LastAt   int64
}

func (attemptRow) TableName() string { return "attempts" }

// CountAttempt counts an attempt for all subjects before its outcome is known, so that concurrent attempts do not avoid the delay. If a
// subject must wait, it returns the longest delay and counts nothing. The change that the attempt leads to removes it from the counts.
func (s *Store) CountAttempt(ctx context.Context, subjects ...AttemptSubject) (wait time.Duration, err error) {
	subjects = inOrder(subjects)
	err = s.db.Change(ctx, func(tx *dbtx.Tx) error {
		rows := make([]attemptRow, len(subjects))
		wait = 0
		for i, subject := range subjects {
			// One statement creates or finds the row and locks it in both cases, even if a concurrent success deletes it.
			err := tx.Raw(`INSERT INTO attempts (subject, failures, last_at) VALUES (?, 0, 0)
				ON CONFLICT (subject) DO UPDATE SET failures = attempts.failures RETURNING *`, attemptName(tx, subject)).Scan(&rows[i]).Error
			if err != nil {
				return err
			}
			wait = max(wait, subject.Rule.Wait(rows[i].Failures, database.FromMicros(rows[i].LastAt), tx.Now))
		}
		if wait > 0 {
			return nil
		}
		for i, subject := range subjects {
			rows[i].Failures = subject.Rule.Count(rows[i].Failures, database.FromMicros(rows[i].LastAt), tx.Now)
			rows[i].LastAt = database.Micros(tx.Now)
			if err := tx.Save(&rows[i]).Error; err != nil {
				return err
			}
		}
		return nil
	})
	return wait, err
}

// inOrder sorts subjects in locking order, to prevent deadlocks.
func inOrder(subjects []AttemptSubject) []AttemptSubject {
	return slices.SortedFunc(slices.Values(subjects), func(a, b AttemptSubject) int { return strings.Compare(a.Name, b.Name) })
}

// forgive removes a successful attempt from the counts.
func forgive(tx *dbtx.Tx, subjects []AttemptSubject) error {
	for _, subject := range inOrder(subjects) {
		row := tx.Where("subject = ?", attemptName(tx, subject))
		var err error
		if subject.Shared {
			err = row.Model(&attemptRow{}).Where("failures > 0").Update("failures", gorm.Expr("failures - 1")).Error
		} else {
			err = row.Delete(&attemptRow{}).Error
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attemptName returns the keyed hash of a subject, so that the database does not contain addresses.
func attemptName(tx *dbtx.Tx, subject AttemptSubject) string {
	return tx.Box.Fingerprint(subject.Name, "attempt")
}
