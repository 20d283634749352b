package people

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// RequestSignUp posts a mail with a LinkConfirm to an address, or one that says that an account has
// it already.
func (s *Store) RequestSignUp(ctx context.Context, email string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		return mailNewAddress(tx, LinkConfirm, "", email, "confirm-address")
	})
}

// SignUp creates the account of a link and starts a halfway session. It returns an error if the
// link was used or another account has the address.
func (s *Store) SignUp(ctx context.Context, secret, passwordHash string, entry Entry) (Admitted, error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Admitted, error) {
		l, err := useLink(tx, secret, LinkConfirm)
		if err != nil {
			return Admitted{}, err
		}
		a, err := account.Create(tx, api.BaseTier)
		if err != nil {
			return Admitted{}, err
		}
		person := personRow{AccountID: a.ID, Email: l.Email, PasswordHash: passwordHash, CreatedAt: tx.Now}
		err = tx.Create(&person).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return Admitted{}, errLinkGone
		}
		if err == nil {
			err = tx.Record(a.ID, "person.sign_up", a.ID, map[string]any{"tier": a.Granted})
		}
		if err != nil {
			return Admitted{}, err
		}
		return startSession(tx, a.ID, Halfway, SetUpLife, entry)
	})
}

// Credentials returns the account and password hash for an address. Both are empty if no account
// has it.
func (s *Store) Credentials(ctx context.Context, email string) (accountID, passwordHash string, err error) {
	row, err := byEmail(s.db.WithContext(ctx), email)
	return row.AccountID, row.PasswordHash, database.Outage(err)
}

// Rehash replaces the hash of the same password.
func (s *Store) Rehash(ctx context.Context, accountID, before, after string) error {
	return database.Outage(s.db.WithContext(ctx).Model(&personRow{}).
		Where("account_id = ? AND password_hash = ?", accountID, before).Update("password_hash", after).Error)
}

// SignInFailed records a failed attempt and the factor used. It takes the same time if accountID is
// empty.
func (s *Store) SignInFailed(ctx context.Context, accountID, with string, client Client, subject AttemptSubject) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		// write in both cases, because a commit without changes is faster
		err := tx.Model(&attemptRow{}).Where("subject = ?", attemptName(tx, subject)).
			Update("last_at", database.Micros(tx.Now)).Error
		if err != nil {
			return err
		}
		return tx.DoUnless(accountID == "", func() error {
			return tx.Record(accountID, "person.sign_in_failed", accountID,
				map[string]any{"with": with, "agent": client.Agent, "network": client.Network})
		})
	})
}

// SignInHalfway starts a halfway session after a valid password and forgives the attempts. It also
// removes a lost authenticator whose waiting period is over.
func (s *Store) SignInHalfway(ctx context.Context, accountID string, entry Entry, tried ...AttemptSubject) (Admitted,
	error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Admitted, error) {
		if err := forgive(tx, tried); err != nil {
			return Admitted{}, err
		}
		if err := removeLost(tx, accountID); err != nil {
			return Admitted{}, err
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return Admitted{}, err
		}
		life := HalfwayLife
		if person.TOTPConfirmedAt == nil {
			life = SetUpLife
		}
		return startSession(tx, accountID, Halfway, life, entry)
	})
}

// SignIn completes signing in with a second factor.
func (s *Store) SignIn(ctx context.Context, half Session, entry Entry, by Proof, tried ...AttemptSubject) (Admitted,
	error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Admitted, error) {
		if err := by.use(tx, half.Account); err != nil {
			return Admitted{}, err
		}
		if err := forgive(tx, tried); err != nil {
			return Admitted{}, err
		}
		return complete(tx, half, entry, by.factor)
	})
}

// complete replaces a halfway session by a full one, with a new ID and a new secret. It also
// cancels the removal of a lost authenticator, because the person still has a second factor.
func complete(tx *accountdb.Tx, half Session, entry Entry, factor string) (Admitted, error) {
	n, err := end(tx, "id = ? AND stage = ?", half.ID, string(Halfway))
	if err == nil && n == 0 {
		err = errUsed
	}
	if err != nil {
		return Admitted{}, err
	}
	device, known, err := rememberDevice(tx, half.Account, entry.Device)
	if err != nil {
		return Admitted{}, err
	}
	entry.Before, entry.Device = "", device // the halfway session has already ended
	admitted, err := startSession(tx, half.Account, Full, SessionLife, entry)
	if err != nil {
		return admitted, err
	}
	if !known && factor != setUp {
		err = tx.Notify(half.Account, "new-sign-in", map[string]string{
			"when": account.FormatTime(tx.Now), "agent": entry.Client.Agent, "network": entry.Client.Network,
		})
	}
	return admitted, errors.Join(err,
		keepFactor(tx, half.Account),
		tx.Record(half.Account, "person.sign_in", half.Account, map[string]any{
			"factor": factor, "agent": entry.Client.Agent, "network": entry.Client.Network,
		}))
}
