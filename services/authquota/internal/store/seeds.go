package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
	"opportunity.internal/services/authquota/internal/totp"
)

// newSeedContext binds a sealed seed to the session in which it was shown.
func newSeedContext(sessionID string) string { return "new totp seed " + sessionID }

// NewSeed returns the seed of an authenticator that is being set up. It stays the same for session.SetUpLife, so that the page
// can be reloaded. Each browser gets a different seed.
func (s *Store) NewSeed(ctx context.Context, current session.Session) (account.NewSeed, error) {
	now, made := s.now(), totp.NewSeed()
	// one statement, so that two concurrent requests return the same seed
	err := s.db.WithContext(ctx).Model(&sessionRow{}).
		Where("id = ? AND ended_at IS NULL AND (new_seed = '' OR new_seed_at <= ?)", current.ID, database.Micros(now.Add(-session.SetUpLife))).
		Updates(map[string]any{"new_seed": s.box.Seal([]byte(made), newSeedContext(current.ID)), "new_seed_at": database.Micros(now)}).Error
	var row sessionRow
	if err == nil {
		err = s.db.WithContext(ctx).Take(&row, "id = ? AND new_seed <> ''", current.ID).Error
	}
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return account.NewSeed{}, account.NotFound() // the session has ended in the meantime
	}
	if err != nil {
		return account.NewSeed{}, database.Outage(err)
	}
	plain, err := s.box.Open(row.NewSeed, newSeedContext(current.ID))
	return account.NewSeed{Seed: string(plain), Sealed: row.NewSeed}, err
}

// storeSeed makes the new seed of a session the authenticator of its person and marks the step as used. condition selects
// persons with or without an authenticator. It returns account.CodeUsed if a concurrent request was first.
func (s *Store) storeSeed(tx *gorm.DB, now time.Time, current session.Session, seed account.NewSeed, step int64, condition string) error {
	err := one(tx.Model(&personRow{}).Where("account_id = ? AND closed_at IS NULL AND "+condition, current.Account).Updates(map[string]any{
		"totp_seed": s.box.Seal([]byte(seed.Seed), seedContext(current.Account)), "totp_confirmed_at": database.Micros(now), "totp_last_step": step,
	}))
	if err != nil {
		return err
	}
	return one(tx.Model(&sessionRow{}).Where("id = ? AND new_seed = ?", current.ID, seed.Sealed).Update("new_seed", ""))
}

// setUp is the factor of a session that started by setting up the authenticator.
const setUp = "authenticator set-up"

// ConfirmAuthenticator sets up the first authenticator with the step of a valid code, stores the hashes of recovery codes and
// completes signing in. It returns account.CodeUsed if a concurrent request was first.
func (s *Store) ConfirmAuthenticator(ctx context.Context, half session.Session, entry session.Entry, seed account.NewSeed, step int64, codes []string, tried ...throttle.Subject) (admitted session.Admitted, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		err := s.storeSeed(tx, now, half, seed, step, "totp_confirmed_at IS NULL")
		if err == nil {
			err = replaceCodes(tx, half.Account, codes)
		}
		if err == nil {
			err = s.forgive(tx, tried)
		}
		if err == nil {
			err = record(tx, now, half.Account, "factor.add", half.Account, map[string]any{"factor": "authenticator"})
		}
		if err != nil {
			return err
		}
		admitted, err = s.complete(tx, now, half, entry, setUp)
		return err
	})
	return admitted, err
}

// ReplaceAuthenticator replaces the authenticator with the step of a valid code, ends all other sessions and gives this one a
// new secret. It returns account.CodeUsed if a concurrent request was first.
func (s *Store) ReplaceAuthenticator(ctx context.Context, current session.Session, seed account.NewSeed, step int64, tried ...throttle.Subject) (secret string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := s.storeSeed(tx, now, current, seed, step, "totp_confirmed_at IS NOT NULL"); err != nil {
			return err
		}
		if secret, err = s.endOtherSessions(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			s.keepFactor(tx, now, current.Account),
			endAddressChange(tx, now, current.Account),
			s.forgive(tx, tried),
			record(tx, now, current.Account, "factor.remove", current.Account, map[string]any{"factor": "authenticator", "by": "another"}),
			record(tx, now, current.Account, "factor.add", current.Account, map[string]any{"factor": "authenticator"}),
			s.notify(tx, now, current.Account, "factor-changed", map[string]string{"what": "the authenticator app was replaced"}))
	})
	return secret, err
}
