// Package people defines and stores the people who sign in to accounts.
//
// A Person signs in with a password, which makes a Session halfway, and with a second factor: the
// code of an authenticator, a recovery code or a passkey. A Link that was sent by mail confirms an
// address, resets the password or replaces a lost authenticator. Each AttemptSubject slows down
// guessing. Operators see people with their accounts (Account) and their acts (Audit).
package people

import (
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
	"opportunity.internal/services/authquota/internal/mail"
)

// Person signs in to an account. Accounts created by operators have none.
type Person struct {
	account.Standing `gorm:"embedded"`

	Account                string `gorm:"column:account_id"`
	Email                  string
	AuthenticatorConfirmed bool // required for requesting keys
	RecoveryCodesLeft      int
	ResetAt                *time.Time         `gorm:"serializer:column"` // when a lost authenticator will be removed, or nil
	Tier                   api.Tier           `gorm:"-"`                 // when the person was read
	SuspendedAt            *time.Time         `gorm:"serializer:column"`
	Terms                  *api.AcceptedTerms `gorm:"-"` // accepted last; nil before the first key request
	CreatedAt              time.Time          `gorm:"serializer:column"`
	Epoch                  accountdb.Epoch    `gorm:"embedded"`
}

// Email returns the canonical form of an address and whether it is valid.
func Email(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s, false
	}
	_, domain, _ := strings.Cut(s, "@")
	return s, mail.Address(s) == nil && strings.Contains(domain, ".") && !strings.ContainsAny(s, "\"[](),;:<> ")
}

// NewSeed is the seed of an authenticator before its first code.
type NewSeed struct {
	Seed    string
	Sealed  string // stored form; changes with each new seed
	Created bool   // by this request: the browser did not show it before
}

type personRow struct {
	AccountID       string `gorm:"primaryKey"`
	Email           string
	PasswordHash    string
	TOTPSeed        string     `gorm:"column:totp_seed"`
	TOTPConfirmedAt *int64     `gorm:"column:totp_confirmed_at"`
	TOTPLastStep    int64      `gorm:"column:totp_last_step"`
	ResetAt         *time.Time `gorm:"serializer:column"`
	ClosedAt        *time.Time `gorm:"serializer:column"`
	CreatedAt       time.Time  `gorm:"serializer:column"`
}

func (personRow) TableName() string { return "people" }

// Person returns the person of an account; not_found if it has none.
func (s *Store) Person(ctx context.Context, accountID string) (Person, error) {
	db, found := s.db.WithContext(ctx), []Person{}
	err := db.Raw(`
		SELECT p.account_id, p.email, p.reset_at, p.created_at, p.totp_confirmed_at IS NOT NULL AS authenticator_confirmed,
			a.tier, a.suspended_at, `+accountdb.EpochColumns+`, (SELECT count(*) FROM recovery_codes c
				WHERE c.account_id = p.account_id AND c.used_at IS NULL) AS recovery_codes_left
		FROM people p JOIN accounts a ON a.id = p.account_id
		WHERE p.account_id = ? AND p.closed_at IS NULL`, accountID).Scan(&found).Error
	if err == nil && len(found) == 0 {
		err = problem.NoSuch("account")
	}
	if err != nil {
		return Person{}, database.Outage(err)
	}
	p := found[0]
	paid, errPaid := account.Paid(db, accountID)
	p.Paid = paid[accountID]
	p.Tier = p.TierAt(s.db.Now())
	p.Terms, err = account.LastTerms(db, accountID)
	return p, database.Outage(errors.Join(errPaid, err))
}

// byEmail returns the person with an email address, or the zero row.
func byEmail(db *gorm.DB, email string) (personRow, error) {
	var row personRow
	err := db.Take(&row, "email = ? AND closed_at IS NULL", email).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return personRow{}, nil
	}
	return row, err
}

// lockPerson reads the person of an account and locks the row until tx ends. On SQLite the
// transaction itself is the lock.
func lockPerson(tx *accountdb.Tx, accountID string) (personRow, error) {
	var row personRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Take(&row, "account_id = ? AND closed_at IS NULL", accountID).Error
	return row, accountdb.Found(err, "account")
}

// Retention of sign-in data. The audit log is kept.
const (
	sessionsKept = 30 * 24 * time.Hour  // after the last possible use
	linksKept    = 24 * time.Hour       // after expiry
	attemptsKept = 25 * time.Hour       // longer than any AttemptRule needs
	devicesKept  = 400 * 24 * time.Hour // the lifetime of the cookie
)

// DeleteExpired deletes sign-in data past its retention.
func (s *Store) DeleteExpired(ctx context.Context) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		before := func(retention time.Duration) int64 { return database.Micros(tx.Now.Add(-retention)) }
		return errors.Join(
			tx.Delete(&sessionRow{}, "expires_at < ?", before(sessionsKept)).Error,
			tx.Delete(&linkRow{}, "expires_at < ?", before(linksKept)).Error,
			tx.Delete(&attemptRow{}, "last_at < ?", before(attemptsKept)).Error,
			tx.Delete(&deviceRow{}, "seen_at < ?", before(devicesKept)).Error)
	})
}

// Store stores people.
type Store struct{ db *accountdb.DB }

// NewStore returns a Store.
func NewStore(db *accountdb.DB) *Store { return &Store{db} }

// SealedColumns returns the columns of sealed texts.
func SealedColumns() []accountdb.Sealed {
	return []accountdb.Sealed{
		{Table: "people", ID: "account_id", Column: "totp_seed", Context: seedContext},
		{Table: "sessions", ID: "id", Column: "new_seed", Context: newSeedContext},
	}
}

// CloseAccount closes an account on behalf of its person. It revokes the keys, ends the sessions,
// deletes personal data and frees the email address. Usage statistics stay, without personal data.
// Package closing cancels the plan.
func (s *Store) CloseAccount(ctx context.Context, accountID string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		closed, err := account.Lock(tx, accountID)
		if err != nil {
			return err
		}
		if closed.SuspendedAt != nil { // otherwise the address could be used for a new account
			return problem.New(problem.InvalidParameter,
				"Your account is suspended. You can close it when it is resumed.")
		}
		person, err := lockPerson(tx, accountID)
		if err != nil {
			return err
		}
		keys, err := keys.EndAll(tx, accountID)
		if err != nil {
			return err
		}
		for _, table := range []string{"recovery_codes", "passkeys", "devices"} {
			if err := tx.Exec("DELETE FROM "+table+" WHERE account_id = ?", accountID).Error; err != nil {
				return err
			}
		}
		if err := tx.Delete(&linkRow{}, "account_id = ? OR email = ?", accountID, person.Email).Error; err != nil {
			return err
		}
		if _, err := end(tx, "account_id = ?", accountID); err != nil {
			return err
		}
		tx.Touched(accountdb.Epoch{Account: accountID, State: counter.ClosedState})
		template, pays := "account-closed", closed.Pays(tx.Now)
		if pays {
			template = "account-closed-plan"
		}
		return errors.Join(
			tx.Exec("UPDATE sessions SET agent = '', network = '' WHERE account_id = ?", accountID).Error,
			tx.Model(&personRow{}).Where("account_id = ?", accountID).Updates(map[string]any{
				"email": "closed:" + accountID, "password_hash": "", "totp_seed": "", "totp_confirmed_at": nil, "reset_at": nil,
				"closed_at": database.Micros(tx.Now),
			}).Error,
			tx.Record(accountID, "account.close", accountID, map[string]any{"keys": keys, "plan": pays}),
			tx.Post(mail.Message{To: person.Email, Template: template}))
	})
}
