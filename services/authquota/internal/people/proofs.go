package people

import (
	"context"
	"errors"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
)

// confirmBy records a proven factor for a session, which use marks as used, and forgives the
// attempts.
func (s *Store) confirmBy(ctx context.Context, current Session, factor string, tried []AttemptSubject,
	use func(tx *accountdb.Tx) error) (secret string, err error) {
	err = s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := use(tx); err != nil {
			return err
		}
		if secret, err = rotateSecret(tx, current); err != nil {
			return err
		}
		return errors.Join(
			forgive(tx, tried),
			tx.Record(current.Account, "person.confirm", current.ID, map[string]any{"factor": factor}))
	})
	return secret, err
}

// ConfirmByPassword confirms a session with a valid password. hash is the hash that it was verified
// against.
func (s *Store) ConfirmByPassword(ctx context.Context, current Session, hash string, tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "password", tried, func(tx *accountdb.Tx) error {
		person, err := lockPerson(tx, current.Account)
		if err == nil && person.PasswordHash != hash {
			err = errChanged
		}
		return err
	})
}

// ConfirmByCode confirms a session with the step of a valid code, and marks it as used.
func (s *Store) ConfirmByCode(ctx context.Context, current Session, step int64, tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "authenticator", tried, func(tx *accountdb.Tx) error {
		if err := useStep(tx, current.Account, step); err != nil {
			return err
		}
		return keepFactor(tx, current.Account) // it is not lost
	})
}

// ConfirmByPasskey confirms a session with a verified passkey. It returns
// credential.ErrPasskeyRejected if the passkey was removed or cloned.
func (s *Store) ConfirmByPasskey(ctx context.Context, current Session, used credential.Passkey, tried ...AttemptSubject) (secret string, err error) {
	return s.confirmBy(ctx, current, "passkey", tried, func(tx *accountdb.Tx) error {
		if err := usePasskey(tx, used); err != nil {
			return err
		}
		return keepFactor(tx, current.Account)
	})
}

// ConfirmFailed records a failed confirmation of a session.
func (s *Store) ConfirmFailed(ctx context.Context, current Session, factor string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		return tx.Record(current.Account, "person.confirm_failed", current.ID, map[string]any{"factor": factor})
	})
}

// errChanged is returned when a concurrent change was made first.
var errChanged = problem.New(problem.InvalidParameter, "This was changed in the meantime. Reload the page.")
