// Package accountdb runs the changes of authquota: each change is one transaction.
//
// The transaction includes the audit log entry, the mails that the change causes and the new epochs
// of the accounts that it affects. So no change lacks its audit entry, and the gateways and the
// person learn of every change.
//
// The features make a change with DB.Change, or Result if it has one, and write its parts with the
// Tx: Touch, Record, Post and Notify. A Box seals what is secret, such as the mails of the outbox.
// Rows are the types of the features themselves: the serializer column stores their times.
package accountdb

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/authquota/internal/mail"
)

// Migrations has numbered SQL files, as database.Migrate needs them. Never edit a released file:
// add one with the next number.
//
//go:embed migrations/postgres/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

// DB is the database of authquota. The stores of the features return problem.Errors where the
// caller can react: not_found, invalid_parameter, and service_unavailable if the database is
// unavailable.
type DB struct {
	*database.DB

	Now   func() time.Time
	Box   Box // seals secret values
	Mails mail.Writer

	Publisher Publisher     // nil: changes take effect without it
	Posted    chan struct{} // gets a value after a change with a mail, if there is room
}

// Publisher makes changes known outside the database.
type Publisher interface {
	// Published returns the newest mark that was published, or the zero mark. A change is made only
	// on a database that has it.
	Published() setback.Mark
	// Publish returns once the committed change m, of a database that has the published mark
	// verified, is in effect on every gateway. Its error wraps ErrNotInEffect if Redis is
	// unavailable.
	Publish(ctx context.Context, verified, m setback.Mark, epochs []Epoch) error
}

// Tx is the transaction of one change.
type Tx struct {
	*gorm.DB

	Now   time.Time // of the change, with the precision of the database
	Box   Box
	Mails mail.Writer

	touched  map[string]Epoch
	gateways bool // cache what changes
	posted   bool
}

// Change runs do in a transaction, which is rolled back if do returns an error. If do calls Touch,
// Change returns nil only once the change is in effect on every gateway. If Redis is unavailable,
// it returns ErrNotInEffect, but nil if do calls Remember only.
func (db *DB) Change(ctx context.Context, do func(tx *Tx) error) error {
	now := db.Now().UTC().Truncate(time.Microsecond) // the precision of the database, so that responses match it
	var verified, m setback.Mark
	if db.Publisher != nil {
		verified = db.Publisher.Published()
	}
	tx := &Tx{Now: now, Box: db.Box, Mails: db.Mails, touched: map[string]Epoch{}}
	err := db.WithContext(ctx).Transaction(func(gormTx *gorm.DB) error {
		tx.DB = gormTx
		err := do(tx)
		if err == nil && len(tx.touched) > 0 {
			m, err = tx.number(verified)
		}
		return err
	})
	if err == nil && tx.posted {
		select {
		case db.Posted <- struct{}{}:
		default:
		}
	}
	if err != nil || m.Sequence == 0 || db.Publisher == nil {
		return database.Outage(err)
	}
	err = db.Publisher.Publish(context.WithoutCancel(ctx), verified, m, slices.Collect(maps.Values(tx.touched)))
	switch {
	case !errors.Is(err, ErrNotInEffect):
		return err
	case !tx.gateways:
		return nil
	}
	return errors.Join(ErrNotInEffect, problem.New(problem.ServiceUnavailable,
		"The change is saved and takes effect automatically as soon as Redis is available again.").
		Retry(time.Second).Because(err))
}

// Result is db.Change for a change with a result.
func Result[T any](ctx context.Context, db *DB, do func(tx *Tx) (T, error)) (result T, err error) {
	err = db.Change(ctx, func(tx *Tx) (err error) {
		result, err = do(tx)
		return err
	})
	return result, err
}

// ErrNotInEffect is wrapped by the error of a change that is saved but not in effect yet.
var ErrNotInEffect = errors.New("change saved but not in effect")

// number numbers the change, if the database has the mark verified. It is the last step of the
// transaction, so that the order of sequences is that of commits and other changes wait only for
// the commit.
func (tx *Tx) number(verified setback.Mark) (m setback.Mark, err error) {
	if m.Sequence, err = database.NextSequence(tx.DB); err != nil {
		return m, err
	}
	m.ID = rand.Text()
	err = tx.Raw(`INSERT INTO changes (sequence, id, accounts) SELECT CAST(? AS bigint), ?, ?
		WHERE ? OR EXISTS (SELECT 1 FROM changes WHERE sequence = ? AND id = ?)
		RETURNING (SELECT id FROM generations ORDER BY began_at DESC LIMIT 1)`,
		m.Sequence, m.ID, strings.Join(slices.Sorted(maps.Keys(tx.touched)), ","), verified.Sequence == 0, verified.Sequence,
		verified.ID).Scan(&m.Generation).Error
	if err == nil && m.Generation == "" {
		err = problem.Unavailable(setback.ErrSetBack) // the next poll says whether an operator has to decide
	}
	return m, err
}

// Epoch is the version of an account: each change of it raises it. Gateways discard what they know
// of an account under another epoch.
type Epoch struct {
	Account string
	Number  int64
	State   string // as in the hash of epochs, see package counter
}

// Step returns the distance of a new epoch to the time and to the one before: a random part of a
// second in microseconds, so that a change that is made on a database that was set back does not
// get the epoch of a lost one.
func Step() int64 { return 1 + mathrand.Int64N(1_000_000) } //nolint:gosec // to avoid accidents

// EpochColumns selects an Epoch from accounts a.
const EpochColumns = `a.id AS account, a.epoch AS number, CASE
	WHEN a.merged_into IS NOT NULL OR EXISTS (SELECT 1 FROM people p WHERE p.account_id = a.id AND p.closed_at IS NOT NULL)
		THEN '` + counter.ClosedState + `'
	WHEN a.suspended_at IS NOT NULL THEN '` + counter.SuspendedState + `' ELSE '' END AS state`

// Touch is Remember for a change of what gateways cache of the accounts.
func (tx *Tx) Touch(ids ...string) error {
	tx.gateways = true
	return tx.Remember(ids...)
}

// Remember raises the epochs of accounts, for a change that a restored backup must not undo. Call
// it after a change of the account itself, and before those of other rows: it locks the accounts
// until tx ends.
func (tx *Tx) Remember(ids ...string) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, done := tx.touched[id]; return done || id == "" })
	if len(ids) == 0 {
		return nil
	}
	return tx.touch("id IN ?", ids)
}

// TouchOwner is Touch for the account of a key.
func (tx *Tx) TouchOwner(key string) error {
	tx.gateways = true
	return tx.touch("id = (SELECT account_id FROM api_keys WHERE id = ?)", key)
}

func (tx *Tx) touch(where string, args ...any) error {
	now := database.Micros(tx.Now)
	var touched []Epoch
	err := tx.Raw(
		"UPDATE accounts SET epoch = CASE WHEN epoch < ? THEN ? ELSE epoch END + ? WHERE "+where+" RETURNING "+
			""+strings.ReplaceAll(EpochColumns, "a.", "accounts."),
		append([]any{now, now, Step()}, args...)...).Scan(&touched).Error
	for _, e := range touched {
		tx.Touched(e)
	}
	return err
}

// Touched is Remember for an account whose row has the epoch already, or whose state changes.
func (tx *Tx) Touched(e Epoch) {
	if before, done := tx.touched[e.Account]; done && e.Number == 0 {
		e.Number = before.Number
	}
	tx.touched[e.Account] = e
}

// DoUnless runs do and rolls it back if skip is set, so that timing does not reveal whether there
// was something to do.
func (tx *Tx) DoUnless(skip bool, do func() error) error {
	if err := tx.SavePoint("unless").Error; err != nil {
		return err
	}
	if err := do(); err != nil || !skip {
		return err
	}
	return tx.RollbackTo("unless").Error
}

// AuditRow is an entry of the audit log.
type AuditRow struct {
	ID      int64 `gorm:"primaryKey"`
	At      int64
	Actor   string
	Action  string
	Subject string
	Detail  string // JSON
}

// TableName implements gorm's Tabler.
func (AuditRow) TableName() string { return "audit_log" }

// Record writes the audit log entry of a change. The detail must not contain a key or its digest.
func (tx *Tx) Record(actor, action, subject string, detail map[string]any) error {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return tx.Create(&AuditRow{At: database.Micros(tx.Now), Actor: actor, Action: action, Subject: subject,
		Detail: string(encoded)}).Error
}

// Epochs returns the epochs of the accounts a that where selects.
func (db *DB) Epochs(ctx context.Context, where string, args ...any) (epochs []Epoch, err error) {
	err = db.WithContext(ctx).Raw("SELECT "+EpochColumns+" FROM accounts a WHERE "+where, args...).Scan(&epochs).Error
	return epochs, database.Outage(err)
}

// NewID returns an ID with a prefix. IDs sort by creation time.
func NewID(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// ValidID reports whether s has the form of an ID with a prefix.
func ValidID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && len(rest) == 32 && uuid.Validate(rest) == nil
}

// CheckID returns not_found for an ID that does not have the form of those of its kind: account,
// key or request. It does not check other kinds.
func CheckID(kind, id string) error {
	prefix := map[string]string{"account": "acc_", "key": "key_", "request": "req_"}[kind]
	if prefix == "" || ValidID(prefix, id) {
		return nil
	}
	return problem.NoSuch(kind)
}

// Found returns the error of reading one row: not_found if there is none of this kind.
func Found(err error, kind string) error {
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return problem.NoSuch(kind)
	}
	return database.Outage(err)
}

// Changed returns the error of an update, or otherwise if it changed no row.
func Changed(update *gorm.DB, otherwise error) error {
	if update.Error == nil && update.RowsAffected == 0 {
		return otherwise
	}
	return update.Error
}
