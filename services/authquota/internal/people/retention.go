package people

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Retention of sign-in data. The audit log is kept.
const (
	sessionsKept = 30 * 24 * time.Hour  // after the last possible use
	linksKept    = 24 * time.Hour       // after expiry
	attemptsKept = 25 * time.Hour       // longer than any throttle.Rule needs
	devicesKept  = 400 * 24 * time.Hour // the lifetime of the cookie
)

// DeleteExpired deletes sign-in data past its retention.
func (s *Store) DeleteExpired(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *dbtx.Tx) error {
		before := func(retention time.Duration) int64 { return database.Micros(tx.Now.Add(-retention)) }
		return errors.Join(
			tx.Delete(&sessionRow{}, "expires_at < ?", before(sessionsKept)).Error,
			tx.Delete(&linkRow{}, "expires_at < ?", before(linksKept)).Error,
			tx.Delete(&attemptRow{}, "last_at < ?", before(attemptsKept)).Error,
			tx.Delete(&deviceRow{}, "seen_at < ?", before(devicesKept)).Error)
	})
}
