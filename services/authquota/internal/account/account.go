// Package account defines what the features share about an account: its tier, suspension and terms.
package account

import (
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Account holds keys. Its tier, suspension and quota apply to all of them.
type Account struct {
	Standing

	ID            string
	SuspendedAt   *time.Time // nil unless suspended
	SuspendReason string
	MergedInto    string     // the account that took over its keys; empty if none
	ClosedAt      *time.Time // when its person closed it; final
	CreatedAt     time.Time
}

// State is the state of an account.
type State string

// The states of an account.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended"
	StateClosed    State = "closed"
	StateMerged    State = "merged"
)

// State returns the state of the account. Closed and merged are final.
func (a Account) State() State {
	switch {
	case a.ClosedAt != nil:
		return StateClosed
	case a.MergedInto != "":
		return StateMerged
	case a.SuspendedAt != nil:
		return StateSuspended
	}
	return StateActive
}

// NewID returns an account ID. IDs sort by creation time.
func NewID() string { return NewIDOf("acc_") }

// NewIDOf returns an ID with a prefix. IDs sort by creation time.
func NewIDOf(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// ValidID reports whether s has the form of an ID with a prefix.
func ValidID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && len(rest) == 32 && uuid.Validate(rest) == nil
}

// CheckID returns NotFound for an ID that does not have the form of an account ID.
func CheckID(id string) error {
	if !ValidID("acc_", id) {
		return NotFound()
	}
	return nil
}

// NotFound returns the error for an unknown account ID.
func NotFound() error { return problem.NoSuch("account") }

// Merged returns the error for a change to an account that was merged into another one.
func Merged(into string) error {
	return problem.New(problem.NotFound, "This account was merged into %s.", into)
}

// Closed returns the error for a change to an account that its person closed at.
func Closed(at time.Time) error {
	return problem.New(problem.InvalidParameter,
		"This account was closed on %s. Closing is final: it cannot get keys or a tier, and cannot be suspended or resumed.", FormatTime(at))
}

// Change is an operator's change to an account.
type Change struct {
	Action string            // action in the audit log
	Mail   string            // mail to the account's person; empty for Grant, which sends a mail only if the tier differs
	Data   map[string]string // of that mail

	apply func(a *Account, now time.Time) map[string]any
}

// Apply applies the change and returns the detail of its audit log entry. It returns nil if the
// account has this state already; repeating a change is not an error.
func (c Change) Apply(a *Account, now time.Time) map[string]any { return c.apply(a, now) }

// Suspend rejects all requests of the account, starting with the next one. The mail to the
// account's person quotes the reason. Another reason for a suspended account replaces the first
// one, unless it is api.ReasonNotStated.
func Suspend(reason string) (Change, error) {
	reason, err := Text("reason", reason)
	return Change{"account.suspend", "account-suspended", map[string]string{"reason": reason}, func(a *Account, now time.Time) map[string]any {
		if a.SuspendedAt == nil {
			a.SuspendedAt, a.SuspendReason = &now, reason
			return map[string]any{"reason": reason}
		}
		before := a.SuspendReason
		if reason == before || reason == api.ReasonNotStated {
			return nil
		}
		a.SuspendReason = reason
		return map[string]any{"reason": reason, "before": before}
	}}, err
}

// Resume ends a suspension. The reason is for the audit log.
func Resume(reason string) (Change, error) {
	reason, err := Text("reason", reason)
	return Change{"account.resume", "account-resumed", nil, func(a *Account, _ time.Time) map[string]any {
		if a.SuspendedAt == nil {
			return nil
		}
		a.SuspendedAt, a.SuspendReason = nil, ""
		return map[string]any{"reason": reason}
	}}, err
}

// Grant sets the granted tier of the account. Paid tiers are unaffected, and so is today's usage.
func Grant(to api.Tier) (Change, error) {
	return Change{"account.grant", "", nil, func(a *Account, _ time.Time) map[string]any {
		from := a.Granted
		if from == to {
			return nil
		}
		a.Granted = to
		return map[string]any{"from": from, "to": to}
	}}, ValidTier(to)
}

// ValidTier returns an error for an unknown tier.
func ValidTier(t api.Tier) error {
	if t.Rank() < 0 {
		return problem.Invalid("tier", "must be one of "+TierNames())
	}
	return nil
}

// TierNames returns the names of all tiers.
func TierNames() string {
	names := make([]string, len(api.Tiers))
	for i, known := range api.Tiers {
		names[i] = string(known.Tier)
	}
	return strings.Join(names, ", ")
}

const maxText = 500 // of other lines

// Text validates a line of text, such as a reason, and returns its canonical form.
func Text(field, s string) (string, error) { return Line(field, s, maxText) }

// Line returns a line of at most limit characters in its stored form, see api.Line. It also rejects
// API keys, which must never be stored.
func Line(field, s string, limit int) (string, error) {
	s, err := api.Line(s, limit)
	if err != nil {
		return "", problem.Invalid(field, err.Error())
	}
	if strings.Contains(s, apikey.Live) || strings.Contains(s, apikey.Test) {
		return "", problem.Invalid(field, "must not contain an API key")
	}
	return s, nil
}

// FormatTime formats a time for people.
func FormatTime(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 UTC") }

// HigherTier returns the higher of two tiers.
func HigherTier(a, b api.Tier) api.Tier {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// Page is a page of a list: up to Limit entries after an ID. A Limit of 0 means all.
type Page struct {
	After string
	Limit int
}

// Row is an
type Row struct {
	ID            string `gorm:"primaryKey"`
	Tier          string
	SuspendedAt   *int64
	SuspendReason string
	MergedInto    *string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
	Epoch         int64 `gorm:"<-:create"` // see accountdb.Tx.Touch
}

// TableName implements gorm's Tabler.
func (Row) TableName() string { return "accounts" }

// Account returns the account without its entitlements and without the time at which it was closed.
func (r Row) Account() Account {
	a := Account{
		Standing: Standing{Granted: api.Tier(r.Tier)}, ID: r.ID, SuspendedAt: accountdb.Instant(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: database.FromMicros(r.CreatedAt),
	}
	if r.MergedInto != nil {
		a.MergedInto = *r.MergedInto
	}
	return a
}

// WithPaid returns the account with its entitlements.
func (r Row) WithPaid(db *gorm.DB) (Account, error) {
	a := r.Account()
	paid, err := Paid(db, r.ID)
	a.Paid = paid[r.ID]
	return a, err
}

func fromAccount(a Account) *Row {
	row := &Row{
		ID: a.ID, Tier: string(a.Granted), SuspendedAt: accountdb.Micros(a.SuspendedAt), SuspendReason: a.SuspendReason,
		CreatedAt: database.Micros(a.CreatedAt),
	}
	if a.MergedInto != "" {
		row.MergedInto = &a.MergedInto
	}
	return row
}

// Create creates an account with a granted tier.
func Create(tx *accountdb.Tx, granted api.Tier) (Account, error) {
	a := Account{Standing: Standing{Granted: granted}, ID: NewID(), CreatedAt: tx.Now}
	row := fromAccount(a)
	row.Epoch = database.Micros(tx.Now) + accountdb.Step()
	tx.Touched(accountdb.Epoch{Account: a.ID, Number: row.Epoch})
	return a, tx.Create(row).Error
}

// Save stores the changed fields of an account, which must be locked.
func Save(tx *accountdb.Tx, a Account) error {
	return errors.Join(tx.Save(fromAccount(a)).Error, tx.Touch(a.ID))
}

// Lock reads an account and locks it until tx ends, so that no other transaction changes it or
// issues it a key. On SQLite the transaction itself is the lock. It returns an error for an account
// that was merged into another one or closed.
func Lock(tx *accountdb.Tx, id string) (Account, error) {
	row, err := LockRow(tx, id)
	if err == nil && row.MergedInto != nil {
		err = Merged(*row.MergedInto)
	}
	if err != nil {
		return row.Account(), err
	}
	a, err := row.WithPaid(tx.DB)
	if err == nil {
		a.ClosedAt, err = closedAt(tx, id)
	}
	if a.ClosedAt != nil {
		err = Closed(*a.ClosedAt)
	}
	return a, err
}

// LockRow locks an account in any state until tx ends.
func LockRow(tx *accountdb.Tx, id string) (Row, error) {
	var row Row
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = NotFound()
	}
	return row, err
}

// closedAt returns when an account was closed, or nil.
func closedAt(tx *accountdb.Tx, id string) (*time.Time, error) {
	var closed []int64
	err := tx.Raw("SELECT closed_at FROM people WHERE account_id = ? AND closed_at IS NOT NULL", id).Scan(&closed).Error
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	return accountdb.Instant(&closed[0]), nil
}

// Merge gives the entitlements of one account to another, which also gets the granted tier. Both
// must be locked.
func Merge(tx *accountdb.Tx, from, to string, granted api.Tier) error {
	return errors.Join(
		tx.Model(&Row{}).Where("id = ?", from).Update("merged_into", to).Error,
		tx.Model(&Row{}).Where("id = ?", to).Update("tier", granted).Error,
		tx.Touch(from, to),
		tx.Model(&EntitlementRow{}).Where("holder_id = ?", from).Update("holder_id", to).Error)
}

// NotifyTier posts a mail if the tier of an account differs from before.
func NotifyTier(tx *accountdb.Tx, before api.Tier, a Account) error {
	after := a.TierAt(tx.Now)
	if after == before {
		return nil
	}
	return tx.Notify(a.ID, "tier-changed", map[string]string{"from": string(before), "to": string(after)})
}
