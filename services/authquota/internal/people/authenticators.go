package people

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/mail"
)

// newSeedContext binds a sealed seed to the session in which it was shown.
func newSeedContext(sessionID string) string { return "new totp seed " + sessionID }

// NewSeed returns the seed of an authenticator that is being set up. It stays the same for
// SetUpLife, so that the page can be reloaded. Each browser gets a different seed.
func (s *Store) NewSeed(ctx context.Context, current Session) (NewSeed, error) {
	now, made := s.db.Now(), credential.NewSeed()
	// one statement, so that two concurrent requests return the same seed
	created := s.db.WithContext(ctx).Table("sessions").
		Where("id = ? AND ended_at IS NULL AND (new_seed = '' OR new_seed_at <= ?)", current.ID,
			database.Micros(now.Add(-SetUpLife))).
		Updates(map[string]any{
			"new_seed": s.db.Box.Seal([]byte(made), newSeedContext(current.ID)), "new_seed_at": database.Micros(now),
		})
	var row sessionRow
	err := created.Error
	if err == nil {
		err = s.db.WithContext(ctx).Take(&row, "id = ? AND new_seed <> ''", current.ID).Error
	}
	if err != nil {
		return NewSeed{}, accountdb.Found(err, "account") // the session may have ended in the meantime
	}
	plain, err := s.db.Box.Open(row.NewSeed, newSeedContext(current.ID))
	return NewSeed{Seed: string(plain), Sealed: row.NewSeed, Created: created.RowsAffected > 0}, err
}

// storeSeed makes the new seed of a session the authenticator of its person and marks the step as
// used. condition selects persons with or without an authenticator. It returns an error if a
// concurrent request was first.
func storeSeed(tx *accountdb.Tx, current Session, seed NewSeed, step int64, condition string) error {
	if err := tx.Remember(current.Account); err != nil {
		return err
	}
	err := accountdb.Changed(tx.Model(&personRow{}).
		Where("account_id = ? AND closed_at IS NULL AND "+condition, current.Account).
		Updates(map[string]any{
			"totp_seed":         tx.Box.Seal([]byte(seed.Seed), seedContext(current.Account)),
			"totp_confirmed_at": database.Micros(tx.Now), "totp_last_step": step,
		}), errUsed)
	if err != nil {
		return err
	}
	return accountdb.Changed(
		tx.Table("sessions").Where("id = ? AND new_seed = ?", current.ID, seed.Sealed).Update("new_seed", ""), errUsed)
}

// setUp is the factor of a session that started by setting up the authenticator.
const setUp = "authenticator set-up"

// ConfirmAuthenticator sets up the first authenticator with the step of a valid code, stores the
// hashes of recovery codes and completes signing in. It returns an error if a concurrent request
// was first.
func (s *Store) ConfirmAuthenticator(ctx context.Context, half Session, entry Entry, seed NewSeed, step int64,
	codes []string, tried ...AttemptSubject) (Admitted, error) {
	return s.SignIn(ctx, half, entry, Proof{setUp, func(tx *accountdb.Tx, accountID string) error {
		if err := storeSeed(tx, half, seed, step, "totp_confirmed_at IS NULL"); err != nil {
			return err
		}
		return errors.Join(
			replaceCodes(tx, accountID, codes),
			tx.Record(accountID, "factor.add", accountID, map[string]any{"factor": "authenticator"}))
	}}, tried...)
}

// ReplaceAuthenticator replaces the authenticator with the step of a valid code, ends all other
// sessions and gives this one a new secret. It returns an error if a concurrent request was first.
func (s *Store) ReplaceAuthenticator(ctx context.Context, current Session, seed NewSeed, step int64,
	tried ...AttemptSubject) (secret string, err error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (string, error) {
		if err := storeSeed(tx, current, seed, step, "totp_confirmed_at IS NOT NULL"); err != nil {
			return "", err
		}
		secret, err := endOtherSessions(tx, current)
		if err != nil {
			return "", err
		}
		return secret, errors.Join(
			keepFactor(tx, current.Account),
			endAddressChange(tx, current.Account),
			forgive(tx, tried),
			tx.Record(current.Account, "factor.remove", current.Account, map[string]any{
				"factor": "authenticator", "by": "another",
			}),
			tx.Record(current.Account, "factor.add", current.Account, map[string]any{"factor": "authenticator"}),
			tx.Notify(current.Account, "factor-changed", map[string]string{"what": "the authenticator app was replaced"}))
	})
}

func seedContext(accountID string) string { return "totp seed " + accountID }

// Seed returns the seed of an account's authenticator.
func (s *Store) Seed(ctx context.Context, accountID string) (string, error) {
	var row personRow
	err := s.db.WithContext(ctx).
		Take(&row, "account_id = ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", accountID).Error
	if err != nil {
		return "", accountdb.Found(err, "account")
	}
	plain, err := s.db.Box.Open(row.TOTPSeed, seedContext(accountID))
	return string(plain), err
}

// RequestNewAuthenticator posts a mail with the two links for a lost authenticator: a LinkLost and
// a LinkKeep. Earlier links for it stop working.
func (s *Store) RequestNewAuthenticator(ctx context.Context, of Person) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := endLinks(tx, of.Account, LinkLost, LinkKeep); err != nil {
			return err
		}
		lost, errLost := newLink(tx, LinkLost, of.Account, of.Email)
		keep, errKeep := newLink(tx, LinkKeep, of.Account, of.Email)
		return errors.Join(errLost, errKeep,
			tx.Record(of.Account, "factor.reset_asked", of.Account, map[string]any{}),
			tx.Post(mail.Message{To: of.Email, Template: "authenticator-reset-asked", Data: map[string]string{
				"when": account.FormatTime(tx.Now.Add(ResetWait)), "link": lost, "cancel": keep,
			}}))
	})
}

// BeginReset starts the waiting period for removing the authenticator, by a LinkLost. It ends
// ResetWait after the request for the link, as the mail says.
func (s *Store) BeginReset(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkLost)
		if err != nil {
			return err
		}
		at := l.RequestedAt().Add(ResetWait)
		err = accountdb.Changed(tx.Model(&personRow{}).
			Where("account_id = ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", l.Account).
			Update("reset_at", database.Micros(at)), errLinkGone)
		if err != nil {
			return err
		}
		return tx.Record(l.Account, "factor.reset_begin", l.Account, map[string]any{"at": at})
	})
}

// ScheduleReset begins the removal of a lost authenticator on behalf of an operator, for a reason,
// and returns its time: after OperatorResetWait, or earlier if that was decided before. The person
// gets a mail at once with a link that cancels it; signing in with a second factor does too.
func (s *Store) ScheduleReset(ctx context.Context, actor, accountID, reason string) (at time.Time, err error) {
	if reason, err = account.Text("reason", reason); err != nil {
		return at, err
	}
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := tx.Remember(accountID); err != nil {
			return err
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return err
		}
		at = tx.Now.Add(OperatorResetWait)
		switch due := person.ResetAt; {
		case person.TOTPConfirmedAt == nil:
			return problem.New(problem.InvalidParameter,
				"This account has no authenticator. Its person sets one up when signing in.")
		case due != nil && !due.After(at):
			at = *due
			return nil
		}
		if err := endLinks(tx, accountID, LinkLost, LinkKeep); err != nil {
			return err
		}
		cancel, err := newLink(tx, LinkKeep, accountID, person.Email)
		return errors.Join(err,
			tx.Model(&personRow{}).Where("account_id = ?", accountID).Update("reset_at", database.Micros(at)).Error,
			tx.Record(actor, "factor.reset_begin", accountID, map[string]any{"at": at, "reason": reason}),
			tx.Notify(accountID, "authenticator-reset-operator", map[string]string{
				"when": account.FormatTime(at), "reason": reason, "cancel": cancel,
			}))
	})
	return at, err
}

// CancelReset ends the waiting period by a LinkKeep. The authenticator stays.
func (s *Store) CancelReset(ctx context.Context, secret string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		l, err := useLink(tx, secret, LinkKeep)
		if err != nil {
			return err
		}
		return keepFactor(tx, l.Account)
	})
}

// KeepAuthenticator ends the waiting period on behalf of the account's person.
func (s *Store) KeepAuthenticator(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error { return keepFactor(tx, accountID) })
}

// keepFactor ends the waiting period for a new authenticator, if any, and invalidates its links.
func keepFactor(tx *accountdb.Tx, accountID string) error {
	if err := endLinks(tx, accountID, LinkLost, LinkKeep); err != nil {
		return err
	}
	update := tx.Model(&personRow{}).Where("account_id = ? AND reset_at IS NOT NULL", accountID).Update("reset_at", nil)
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	return errors.Join(tx.Remember(accountID), tx.Record(accountID, "factor.reset_cancel", accountID, map[string]any{}))
}

// removeLost removes the second factors of an account whose waiting period is over.
func removeLost(tx *accountdb.Tx, accountID string) error {
	update := tx.Model(&personRow{}).
		Where("account_id = ? AND reset_at <= ? AND closed_at IS NULL", accountID, database.Micros(tx.Now)).
		Updates(map[string]any{"totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil})
	if update.Error != nil || update.RowsAffected == 0 {
		return update.Error
	}
	if err := replaceCodes(tx, accountID, nil); err != nil {
		return err
	}
	// passkeys may be on the lost device
	if err := tx.Delete(&credential.Passkey{}, "account_id = ?", accountID).Error; err != nil {
		return err
	}
	_, err := end(tx, "account_id = ?", accountID)
	return errors.Join(err,
		endAddressChange(tx, accountID),
		endLinks(tx, accountID, LinkLost, LinkKeep),
		tx.Record(accountID, "factor.remove", accountID, map[string]any{"factor": "authenticator", "by": "reset"}),
		tx.Notify(accountID, "authenticator-reset", nil))
}
