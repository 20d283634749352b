package store

import (
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Retention of sign-in data. The audit log is kept.
const (
	sessionsKept = 30 * 24 * time.Hour  // after the last possible use
	linksKept    = 24 * time.Hour       // after expiry
	attemptsKept = 25 * time.Hour       // longer than any throttle.Rule needs
	devicesKept  = 400 * 24 * time.Hour // the lifetime of the cookie
)

func deleteExpiredSignIns(tx *gorm.DB, now time.Time) error {
	before := func(retention time.Duration) int64 { return database.Micros(now.Add(-retention)) }
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
