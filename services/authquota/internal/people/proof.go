package people

import (
	"context"
	"errors"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
)

// Proof is a factor that a person has proven. The change that it permits uses it in the same
// transaction: of two requests with one proof, the second is rejected.
type Proof struct {
	factor string // as in the audit log
	use    func(tx *accountdb.Tx, accountID string) error
}

// ByCode is the proof by the step of a valid code. Its use returns an error if this or a later
// step was used before.
func ByCode(step int64) Proof {
	return Proof{"authenticator", func(tx *accountdb.Tx, accountID string) error {
		if err := tx.Remember(accountID); err != nil {
			return err
		}
		return accountdb.Changed(tx.Model(&personRow{}).
			Where("account_id = ? AND totp_last_step < ? AND totp_confirmed_at IS NOT NULL AND closed_at IS NULL", accountID,
				step).
			Update("totp_last_step", step), errUsed)
	}}
}

// ByRecoveryCode is the proof by a recovery code with this hash, which its use verifies.
func ByRecoveryCode(hash string) Proof {
	return Proof{"recovery code", func(tx *accountdb.Tx, accountID string) error {
		return useRecoveryCode(tx, accountID, hash)
	}}
}

// ByPasskey is the proof by a verified passkey. Its use returns credential.ErrPasskeyRejected if
// the passkey was removed or cloned.
func ByPasskey(used credential.Passkey) Proof {
	return Proof{"passkey", func(tx *accountdb.Tx, _ string) error { return usePasskey(tx, used) }}
}

// ByPassword is the proof by a valid password. hash is the hash that it was verified against.
func ByPassword(hash string) Proof {
	return Proof{password, func(tx *accountdb.Tx, accountID string) error {
		person, err := lockPerson(tx, accountID)
		if err == nil && person.PasswordHash != hash {
			err = errChanged
		}
		return err
	}}
}

const password = "password"

// errUsed is returned for a valid code that was used before, or by a concurrent request.
var errUsed = problem.New(problem.InvalidParameter, "This code was already used. Wait for the next one.")

// Confirm records a proven factor for a session and gives it a new secret.
func (s *Store) Confirm(ctx context.Context, current Session, by Proof, tried ...AttemptSubject) (secret string,
	err error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (string, error) {
		if err := by.use(tx, current.Account); err != nil {
			return "", err
		}
		if by.factor != password { // the second factor is not lost
			if err := keepFactor(tx, current.Account); err != nil {
				return "", err
			}
		}
		secret, err := rotateSecret(tx, current)
		if err != nil {
			return "", err
		}
		return secret, errors.Join(forgive(tx, tried),
			tx.Record(current.Account, "person.confirm", current.ID, map[string]any{"factor": by.factor}))
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
