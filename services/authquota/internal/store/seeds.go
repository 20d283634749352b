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

// NewSeed is the seed of an authenticator that a browser sets up and that waits for its first code. It stays the same for as long as a
// set-up may take, so that the page that shows it can be opened again; what another browser is shown is another.
func (s *Store) NewSeed(ctx context.Context, current session.Session) (account.NewSeed, error) {
	now, made := s.now(), totp.NewSeed()
	// one statement, so that two pages opened at once show the same
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

// takeSeed makes the seed that a session was shown its person's, by the step whose code was right, where the person has an
// authenticator or has none, as condition says; account.CodeUsed where another try was quicker.
func (s *Store) takeSeed(tx *gorm.DB, now time.Time, current session.Session, seed account.NewSeed, step int64, condition string) error {
	err := one(tx.Model(&personRow{}).Where("account_id = ? AND closed_at IS NULL AND "+condition, current.Account).Updates(map[string]any{
		"totp_seed": s.box.Seal([]byte(seed.Seed), seedContext(current.Account)), "totp_confirmed_at": database.Micros(now), "totp_last_step": step,
	}))
	if err != nil {
		return err
	}
	return one(tx.Model(&sessionRow{}).Where("id = ? AND new_seed = ?", current.ID, seed.Sealed).Update("new_seed", ""))
}

// setUp is how somebody comes in who has just set up the authenticator.
const setUp = "authenticator set-up"

// ConfirmAuthenticator makes the new seed the authenticator of somebody who has none, by the step whose code was right, keeps the
// hashes of recovery codes and lets the browser in; account.CodeUsed where another browser was quicker.
func (s *Store) ConfirmAuthenticator(ctx context.Context, half session.Session, entry session.Entry, seed account.NewSeed, step int64, codes []string, tried ...throttle.Subject) (admitted session.Admitted, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		err := s.takeSeed(tx, now, half, seed, step, "totp_confirmed_at IS NULL")
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

// ReplaceAuthenticator makes the new seed the authenticator in place of the old one, by the step whose code was right, ends all
// other sessions and gives this one another secret; account.CodeUsed where another try was quicker.
func (s *Store) ReplaceAuthenticator(ctx context.Context, current session.Session, seed account.NewSeed, step int64, tried ...throttle.Subject) (secret string, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := s.takeSeed(tx, now, current, seed, step, "totp_confirmed_at IS NOT NULL"); err != nil {
			return err
		}
		if secret, err = s.alone(tx, now, current); err != nil {
			return err
		}
		return errors.Join(
			s.keepFactor(tx, now, current.Account),
			endAddressChange(tx, now, current.Account),
			s.forgive(tx, tried),
			record(tx, now, current.Account, "factor.remove", current.Account, map[string]any{"factor": "authenticator", "by": "another"}),
			record(tx, now, current.Account, "factor.add", current.Account, map[string]any{"factor": "authenticator"}),
			s.tell(tx, now, current.Account, "factor-changed", map[string]string{"what": "another authenticator app took the place of the one before"}))
	})
	return secret, err
}
