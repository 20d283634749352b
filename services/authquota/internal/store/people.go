package store

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

type personRow struct {
	AccountID       string `gorm:"primaryKey"`
	Email           string
	PasswordHash    string
	TOTPSeed        string `gorm:"column:totp_seed"`
	TOTPConfirmedAt *int64 `gorm:"column:totp_confirmed_at"`
	TOTPLastStep    int64  `gorm:"column:totp_last_step"`
	ResetAt         *int64
	ClosedAt        *int64
	CreatedAt       int64 `gorm:"autoCreateTime:false"`
}

func (personRow) TableName() string { return "people" }

// Person returns the person of an account; not_found if it has none.
func (s *Store) Person(ctx context.Context, accountID string) (account.Person, error) {
	var rows []struct {
		Row         personRow `gorm:"embedded"`
		Tier        string
		SuspendedAt *int64
		CodesLeft   int
	}
	err := s.db.WithContext(ctx).Raw(`
		SELECT p.*, a.tier, a.suspended_at,
			(SELECT count(*) FROM recovery_codes c WHERE c.account_id = p.account_id AND c.used_at IS NULL) AS codes_left
		FROM people p JOIN accounts a ON a.id = p.account_id
		WHERE p.account_id = ? AND p.closed_at IS NULL`, accountID).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		return account.Person{}, account.NotFound()
	}
	if err != nil {
		return account.Person{}, database.Outage(err)
	}
	r := rows[0]
	paid, err := paidBy(s.db.WithContext(ctx), accountID)
	if err != nil {
		return account.Person{}, database.Outage(err)
	}
	terms, err := lastTerms(s.db.WithContext(ctx), accountID)
	standing := account.Standing{Granted: api.Tier(r.Tier), Paid: paid[accountID]}
	return account.Person{
		Standing: standing, Account: r.Row.AccountID, Email: r.Row.Email, AuthenticatorConfirmed: r.Row.TOTPConfirmedAt != nil, RecoveryCodesLeft: r.CodesLeft,
		ResetAt: instant(r.Row.ResetAt), Tier: standing.TierAt(s.now()), SuspendedAt: instant(r.SuspendedAt), Terms: terms,
		CreatedAt: database.FromMicros(r.Row.CreatedAt),
	}, database.Outage(err)
}

// byEmail returns the person with an e-mail address, or the zero row.
func byEmail(tx *gorm.DB, email string) (personRow, error) {
	var row personRow
	err := tx.Take(&row, "email = ? AND closed_at IS NULL", email).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return personRow{}, nil
	}
	return row, err
}

// doUnless runs do in a transaction and rolls it back if skip is set, so that timing does not reveal whether the account
// exists.
func doUnless(tx *gorm.DB, skip bool, do func() error) error {
	if err := tx.SavePoint("unless").Error; err != nil {
		return err
	}
	if err := do(); err != nil || !skip {
		return err
	}
	return tx.RollbackTo("unless").Error
}

// RequestSignUp stores a link.Confirm and posts one of two mails: fresh, which has the link, or known, if an account has the
// address.
func (s *Store) RequestSignUp(ctx context.Context, l link.Fresh, fresh, known mail.Message) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		person, err := byEmail(tx, l.Email)
		if err != nil {
			return err
		}
		message := fresh
		if person.AccountID != "" {
			l.Purpose, message = link.Nothing, known
		}
		return errors.Join(saveLink(tx, l), s.post(tx, now, message))
	})
}

// SignUp creates the account of a link and starts a halfway session. It returns link.Gone if the link was used or another
// account has the address.
func (s *Store) SignUp(ctx context.Context, secret, passwordHash string, entry session.Entry) (admitted session.Admitted, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Confirm)
		if err != nil {
			return err
		}
		a := account.Account{Standing: account.Standing{Granted: api.BaseTier}, ID: account.NewID(), CreatedAt: now}
		row := fromAccount(a)
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		err = tx.Create(&personRow{
			AccountID: a.ID, Email: l.Email, PasswordHash: passwordHash, CreatedAt: database.Micros(now),
		}).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return link.Gone()
		}
		if err == nil {
			err = record(tx, now, a.ID, "person.sign_up", a.ID, map[string]any{"tier": a.Granted})
		}
		if err != nil {
			return err
		}
		admitted, err = startSession(tx, now, a.ID, session.Halfway, session.SetUpLife, entry)
		return err
	})
	return admitted, err
}

// Credentials returns the account and password hash for an address. Both are empty if no account has it.
func (s *Store) Credentials(ctx context.Context, email string) (accountID, passwordHash string, err error) {
	row, err := byEmail(s.db.WithContext(ctx), email)
	return row.AccountID, row.PasswordHash, database.Outage(err)
}

// Rehash replaces the hash of the same password.
func (s *Store) Rehash(ctx context.Context, accountID, before, after string) error {
	return database.Outage(s.db.WithContext(ctx).Model(&personRow{}).
		Where("account_id = ? AND password_hash = ?", accountID, before).Update("password_hash", after).Error)
}

// SignInFailed records a failed attempt and the factor used. It takes the same time if accountID is empty.
func (s *Store) SignInFailed(ctx context.Context, accountID, with string, client session.Client, subject throttle.Subject) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		// write in both cases, because a commit without changes is faster
		err := tx.Model(&attemptRow{}).Where("subject = ?", s.attemptName(subject)).Update("last_at", database.Micros(now)).Error
		if err != nil {
			return err
		}
		return doUnless(tx, accountID == "", func() error {
			return record(tx, now, accountID, "person.sign_in_failed", accountID,
				map[string]any{"with": with, "agent": client.Agent, "network": client.Network})
		})
	})
}

// SignInHalfway starts a halfway session after a valid password and forgives the attempts. It also removes a lost authenticator
// whose waiting period is over.
func (s *Store) SignInHalfway(ctx context.Context, accountID string, entry session.Entry, tried ...throttle.Subject) (admitted session.Admitted, err error) {
	err = s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		if err := s.forgive(tx, tried); err != nil {
			return err
		}
		if err := s.removeLost(tx, now, accountID); err != nil {
			return err
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return err
		}
		life := session.HalfwayLife
		if person.TOTPConfirmedAt == nil {
			life = session.SetUpLife
		}
		admitted, err = startSession(tx, now, accountID, session.Halfway, life, entry)
		return err
	})
	return admitted, err
}

// RequestReset stores a link.Reset for the account with its address and posts the mail. If no account has the address, it does
// nothing in the same time.
func (s *Store) RequestReset(ctx context.Context, l link.Fresh, message mail.Message) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		person, err := byEmail(tx, l.Email)
		if err != nil {
			return err
		}
		nobody := person.AccountID == ""
		if l.Account = person.AccountID; nobody {
			l.Purpose = link.Nothing
		}
		if err := saveLink(tx, l); err != nil {
			return err
		}
		return doUnless(tx, nobody, func() error {
			return errors.Join(
				s.post(tx, now, message),
				record(tx, now, person.AccountID, "person.password_reset_asked", person.AccountID, map[string]any{}))
		})
	})
}

// ResetPassword sets a new password by a link.Reset and ends all sessions of the account, and the browser's session, even of
// another account. The second factor stays.
func (s *Store) ResetPassword(ctx context.Context, secret, passwordHash string, entry session.Entry, tried ...throttle.Subject) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		l, err := useLink(tx, now, secret, link.Reset)
		if err != nil {
			return err
		}
		update := tx.Model(&personRow{}).Where("account_id = ? AND email = ? AND closed_at IS NULL", l.Account, l.Email).
			Update("password_hash", passwordHash)
		if update.Error == nil && update.RowsAffected == 0 {
			return link.Gone() // the account has another address by now, or none
		}
		if update.Error != nil {
			return update.Error
		}
		_, err = end(tx, now, "account_id = ? OR token_hash = ?", l.Account, session.Hash(entry.Before))
		return errors.Join(err,
			endLinks(tx, now, l.Account, link.Reset),
			endAddressChange(tx, now, l.Account),
			s.keepFactor(tx, now, l.Account),
			s.forgive(tx, tried),
			record(tx, now, l.Account, "person.password_change", l.Account, map[string]any{"by": "link"}),
			s.post(tx, now, mail.Message{To: l.Email, Template: "password-changed"}))
	})
}
