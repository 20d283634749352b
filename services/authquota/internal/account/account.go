// Package account defines and stores what the features share about an account.
//
// An Account holds keys. Its Standing, a granted tier and paid entitlements, gives its tier at a
// time; a TierTable has the limits of each tier. A Change is an operator's: Suspend, Resume or
// Grant. An account is final once its person closed it or it was merged into another. AcceptTerms
// records which terms of use it has accepted.
package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Standing `gorm:"embedded"`

	ID            string     `gorm:"primaryKey"`
	SuspendedAt   *time.Time `gorm:"serializer:column"` // nil unless suspended
	SuspendReason string
	MergedInto    string     `gorm:"serializer:column"` // the account that took over its keys; empty if none
	ClosedAt      *time.Time `gorm:"-"`                 // when its person closed it; final
	CreatedAt     time.Time  `gorm:"serializer:column"`
}

// State returns the state of the account: active, suspended, closed or merged. The latter two are
// final.
func (a Account) State() string {
	switch {
	case a.ClosedAt != nil:
		return "closed"
	case a.MergedInto != "":
		return "merged"
	case a.SuspendedAt != nil:
		return "suspended"
	}
	return "active"
}

// Listed returns the account at now as operators see it.
func (a Account) Listed(now time.Time) api.Account {
	listed := api.Account{
		ID: a.ID, Status: a.State(), Tier: a.TierAt(now), Granted: a.Granted, Paid: a.PaidAt(now),
		Suspended: a.SuspendedAt != nil, SuspendedAt: a.SuspendedAt,
		CreatedAt: a.CreatedAt, MergedInto: a.MergedInto, ClosedAt: a.ClosedAt,
	}
	if listed.Suspended {
		listed.SuspendReason = &a.SuspendReason
	}
	return listed
}

// NewID returns an account ID. IDs sort by creation time.
func NewID() string { return accountdb.NewID("acc_") }

// Change is an operator's change to an account.
type Change struct {
	Action string            // action in the audit log
	Mail   string            // mail to the account's person; empty for Grant, which sends a mail only if the tier differs
	Data   map[string]string // of that mail

	// Apply applies the change and returns the detail of its audit log entry. It returns nil if the
	// account has this state already; repeating a change is not an error.
	Apply func(a *Account, now time.Time) map[string]any
}

// Suspend rejects all requests of the account, starting with the next one. The mail to the
// account's person quotes the reason. Another reason for a suspended account replaces the first
// one, unless it is api.ReasonNotStated.
func Suspend(reason string) (Change, error) {
	reason, err := Text("reason", reason)
	return Change{"account.suspend", "account-suspended", map[string]string{"reason": reason},
		func(a *Account, now time.Time) map[string]any {
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

type row struct {
	Account `gorm:"embedded"`

	Epoch int64 `gorm:"<-:create"` // see accountdb.Tx.Touch
}

func (row) TableName() string { return "accounts" }

// Read returns an account with its entitlements, without the time at which it was closed. It
// returns not_found for an unknown ID.
func Read(db *gorm.DB, id string) (Account, error) {
	var r row
	err := db.Take(&r, "id = ?", id).Error
	if err != nil {
		return r.Account, accountdb.Found(err, "account")
	}
	paid, err := Paid(db, id)
	r.Paid = paid[id]
	return r.Account, err
}

// Create creates an account with a granted tier.
func Create(tx *accountdb.Tx, granted api.Tier) (Account, error) {
	created := row{
		Account{Standing: Standing{Granted: granted}, ID: NewID(), CreatedAt: tx.Now},
		database.Micros(tx.Now) + accountdb.Step(),
	}
	tx.Touched(accountdb.Epoch{Account: created.ID, Number: created.Epoch})
	return created.Account, tx.DB.Create(&created).Error
}

// Save stores the changed fields of an account, which must be locked.
func Save(tx *accountdb.Tx, a Account) error {
	return errors.Join(tx.DB.Save(&row{Account: a}).Error, tx.Touch(a.ID))
}

// Lock reads an account and locks it until tx ends, so that no other transaction changes it or
// issues it a key. On SQLite the transaction itself is the lock. It returns an error for an account
// that was merged into another one or closed.
func Lock(tx *accountdb.Tx, id string) (Account, error) {
	a, err := LockAny(tx, id)
	switch {
	case err != nil:
		return a, err
	case a.MergedInto != "":
		return a, problem.New(problem.NotFound, "This account was merged into %s.", a.MergedInto)
	}
	paid, err := Paid(tx.DB, id)
	if err == nil {
		a.ClosedAt, err = closedAt(tx, id)
	}
	if a.Paid = paid[id]; a.ClosedAt != nil {
		err = problem.New(problem.InvalidParameter,
			"This account was closed on %s. Closing is final: it cannot get keys or a tier, and cannot be suspended or resumed.",
			FormatTime(*a.ClosedAt))
	}
	return a, err
}

// LockAny locks an account in any state until tx ends. It does not read its entitlements.
func LockAny(tx *accountdb.Tx, id string) (Account, error) {
	var r row
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&r, "id = ?", id).Error
	return r.Account, accountdb.Found(err, "account")
}

func closedAt(tx *accountdb.Tx, id string) (*time.Time, error) {
	var closed []int64
	err := tx.Raw("SELECT closed_at FROM people WHERE account_id = ? AND closed_at IS NOT NULL", id).Scan(&closed).Error
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	at := database.FromMicros(closed[0])
	return &at, nil
}

// Merge gives the entitlements of one account to another, which also gets the granted tier. Both
// must be locked.
func Merge(tx *accountdb.Tx, from, to string, granted api.Tier) error {
	return errors.Join(
		tx.Table("accounts").Where("id = ?", from).Update("merged_into", to).Error,
		tx.Table("accounts").Where("id = ?", to).Update("tier", granted).Error,
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

// Standing determines the tier of an account.
type Standing struct {
	Granted api.Tier          `gorm:"column:tier"` // by an operator, or free
	Paid    []api.Entitlement `gorm:"-"`           // of the account and of accounts merged into it
}

// TierAt returns the tier at a time: the best of the granted and the paid ones.
func (s Standing) TierAt(at time.Time) api.Tier {
	best := s.Granted
	for _, e := range s.Paid {
		if e.Live(at) {
			best = HigherTier(best, e.Tier)
		}
	}
	return best
}

// ChangeAfter returns the next automatic change of the tier after now. ok is false if there is
// none.
func (s Standing) ChangeAfter(now time.Time) (at time.Time, to api.Tier, ok bool) {
	for _, e := range s.Paid {
		if e.Live(now) && s.TierAt(*e.PaidUntil) != s.TierAt(now) && (!ok || e.PaidUntil.Before(at)) {
			at, ok = *e.PaidUntil, true
		}
	}
	if ok {
		to = s.TierAt(at)
	}
	return at, to, ok
}

// PaidAt returns the most relevant entitlement: the one with the best tier in effect, then the one
// that ends last. It returns nil if there is none.
func (s Standing) PaidAt(at time.Time) *api.Entitlement {
	if len(s.Paid) == 0 {
		return nil
	}
	most := slices.MaxFunc(s.Paid, func(e, other api.Entitlement) int {
		switch {
		case e.Live(at) != other.Live(at):
			return map[bool]int{true: 1, false: -1}[e.Live(at)]
		case e.Tier != other.Tier || e.PaidUntil == nil:
			return cmp.Compare(e.Tier.Rank(), other.Tier.Rank())
		}
		return e.PaidUntil.Compare(*other.PaidUntil) // with the same tier, both have an end or neither has
	})
	return &most
}

// Pays reports whether a paid period is in effect or will be charged again.
func (s Standing) Pays(at time.Time) bool {
	return slices.ContainsFunc(s.Paid, func(e api.Entitlement) bool { return e.Renews || e.Live(at) })
}

// Entitlement is api.Entitlement as a part of a row.
type Entitlement struct {
	Tier      api.Tier
	PaidUntil *time.Time `gorm:"serializer:column"`
	Renews    bool
	Trouble   api.Trouble
	Version   int64
}

// EntitlementRow is the entitlement of an account. It counts for the tier of its holder: the
// account itself, or the one that it was merged into.
type EntitlementRow struct {
	Entitlement `gorm:"embedded"`

	AccountID  string `gorm:"primaryKey"`
	HolderID   string
	SaidActive bool `gorm:"column:told_on"` // whether the mails so far say that the plan is active
}

// TableName implements gorm's Tabler.
func (EntitlementRow) TableName() string { return "entitlements" }

// Paid returns the entitlements that count for the given accounts, by account.
func Paid(db *gorm.DB, holders ...string) (map[string][]api.Entitlement, error) {
	var rows []EntitlementRow
	err := db.Order("account_id").Find(&rows, "holder_id IN ?", holders).Error
	paid := make(map[string][]api.Entitlement, len(rows))
	for _, r := range rows {
		paid[r.HolderID] = append(paid[r.HolderID], api.Entitlement(r.Entitlement))
	}
	return paid, err
}

// Acceptance is a form's reply to the terms of use.
type Acceptance struct {
	Version  string // in effect
	Accepted bool   // the form showed this version and it was accepted
}

type termsRow struct {
	AccountID  string `gorm:"primaryKey"`
	Version    string `gorm:"primaryKey"`
	AcceptedAt int64
}

func (termsRow) TableName() string { return "terms_acceptances" }

// LastTerms returns the terms of use that an account accepted last, or nil.
func LastTerms(db *gorm.DB, accountID string) (*api.AcceptedTerms, error) {
	var rows []termsRow
	err := db.Order("accepted_at DESC, version DESC").Limit(1).Find(&rows, "account_id = ?", accountID).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &api.AcceptedTerms{Version: rows[0].Version, AcceptedAt: database.FromMicros(rows[0].AcceptedAt)}, nil
}

// AcceptTerms records that an account, which must be locked, accepts the terms of use. It returns
// an error if the account has not accepted the version in effect, neither now nor last.
func AcceptTerms(tx *accountdb.Tx, accountID string, terms Acceptance) error {
	last, err := LastTerms(tx.DB, accountID)
	switch {
	case err != nil:
		return err
	case last != nil && last.Version == terms.Version:
		return nil
	case !terms.Accepted:
		return problem.New(problem.InvalidParameter, "Accept the terms of use to get a key.")
	}
	row := termsRow{AccountID: accountID, Version: terms.Version, AcceptedAt: database.Micros(tx.Now)}
	if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
		return err
	}
	return tx.Record(accountID, "terms.accept", accountID, map[string]any{"version": terms.Version})
}

// TierTable maps tiers to their limits.
type TierTable map[api.Tier]api.Limits

// Bounds of an override. Redis stores every admission of the last minute, which limits
// maxPerMinute.
const (
	maxPerMinute = 10_000
	maxPerDay    = 1_000_000_000
)

// ParseTiers reads overrides such as "free=10/100/10,developer=60/1000/50": requests per minute,
// requests per UTC day, records per page. Omitted tiers keep their limits. Overrides do not change
// which tiers include history. The returned error joins all problems.
func ParseTiers(overrides string) (TierTable, error) {
	table := make(TierTable, len(api.Tiers))
	for _, t := range api.Tiers {
		table[t.Tier] = t.Limits
	}
	if strings.TrimSpace(overrides) == "" {
		return table, nil
	}
	var mistakes []error
	seen := map[api.Tier]bool{}
	for entry := range strings.SplitSeq(overrides, ",") {
		name, figures, _ := strings.Cut(strings.TrimSpace(entry), "=")
		tier := api.Tier(name)
		limits, known := table[tier]
		switch {
		case !known:
			mistakes = append(mistakes, fmt.Errorf("%q is not a tier", name))
		case seen[tier]:
			mistakes = append(mistakes, fmt.Errorf("%s appears twice", name))
		default:
			seen[tier] = true
			if err := parse(figures, &limits); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: %w", name, err))
			}
			table[tier] = limits
		}
	}
	return table, errors.Join(mistakes...)
}

// List returns the table in the order of api.Tiers.
func (t TierTable) List() []api.TierLimits {
	list := make([]api.TierLimits, len(api.Tiers))
	for i, known := range api.Tiers {
		list[i] = api.TierLimits{Tier: known.Tier, Limits: t[known.Tier]}
	}
	return list
}

func parse(figures string, limits *api.Limits) error {
	parts := strings.Split(figures, "/")
	if len(parts) != 3 {
		return fmt.Errorf("%q is not of the form per minute/per day/page size", figures)
	}
	for i, f := range []struct {
		name string
		into *int
		most int
	}{
		{"per minute", &limits.PerMinute, maxPerMinute},
		{"per day", &limits.PerDay, maxPerDay},
		{"page size", &limits.PageSize, api.MaxPageSize},
	} {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 1 || n > f.most {
			return fmt.Errorf("%s must be an integer from 1 to %d", f.name, f.most)
		}
		*f.into = n
	}
	return nil
}
