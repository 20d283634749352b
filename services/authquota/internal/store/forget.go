package store

import (
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// How long what signing in leaves behind is kept. The audit log keeps what happened.
const (
	sessionsKept = 30 * 24 * time.Hour  // after they could have been used last
	linksKept    = 24 * time.Hour       // after their end
	attemptsKept = 25 * time.Hour       // longer than any rule remembers a failure
	devicesKept  = 400 * 24 * time.Hour // as long as browsers keep the cookie
)

func forgetSignIns(tx *gorm.DB, now time.Time) error {
	before := func(kept time.Duration) int64 { return database.Micros(now.Add(-kept)) }
	for _, old := range []struct {
		row   any
		where string
		at    int64
	}{
		{&sessionRow{}, "expires_at < ?", before(sessionsKept)},
		{&linkRow{}, "expires_at < ?", before(linksKept)},
		{&attemptRow{}, "last_at < ?", before(attemptsKept)},
		{&deviceRow{}, "seen_at < ?", before(devicesKept)},
	} {
		if err := tx.Where(old.where, old.at).Delete(old.row).Error; err != nil {
			return err
		}
	}
	return nil
}
