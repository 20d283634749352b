package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/session"
)

// OpenSessions returns the active sessions of an account, most recently used first.
func (s *Store) OpenSessions(ctx context.Context, accountID string) ([]session.Session, error) {
	now := s.now()
	var rows []sessionRow
	err := s.db.WithContext(ctx).Order("seen_at DESC, id DESC").
		Find(&rows, "account_id = ? AND ended_at IS NULL AND expires_at > ?", accountID, database.Micros(now)).Error
	var living []session.Session
	for _, r := range rows {
		if found := r.toSession(); found.Alive(now) {
			living = append(living, found)
		}
	}
	return living, database.Outage(err)
}

// EndSessions ends all sessions of an account on behalf of its person, and cancels a pending address change.
func (s *Store) EndSessions(ctx context.Context, accountID string) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		n, err := end(tx, now, "account_id = ?", accountID)
		if err != nil || n == 0 {
			return err
		}
		return errors.Join(
			endAddressChange(tx, now, accountID),
			record(tx, now, accountID, "session.end", accountID, map[string]any{"all": n}))
	})
}
