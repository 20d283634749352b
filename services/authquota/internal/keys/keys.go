// Package keys defines and stores keys and key requests.
//
// An operator issues a Key by an api.KeyOrder, or decides a person's Request, which becomes a key once it
// is collected. A person rotates a key, or connects an older one with the account that holds it. An
// Older key was issued by another system and is imported by its hash. Gateways look up what a key
// Resolved to, and learn which keys exist (KeyDigests). The key itself is never stored: Record is.
package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// MaxLife is the longest life of a key, and its life unless an operator sets a shorter one.
const MaxLife = 365 * 24 * time.Hour

// MaxActive is the maximum number of active keys and pending requests of an account. A replaced key
// in its grace period does not count: its successor does.
const MaxActive = 5

// Grace is the time for which a rotated key stays valid, unless it expires first.
const Grace = 24 * time.Hour

// Key is a stored API key: enough to recognize it, not enough to use it.
type Key struct {
	account.Standing `gorm:"embedded"` // of the account

	ID       string `gorm:"primaryKey"`
	Account  string `gorm:"column:account_id"`
	Name     string // set by its holder; may be empty
	Prefix   string
	LastFour string
	UseCase  string
	// of the key and its successors, if an operator set one; 0 means MaxLife
	Life      time.Duration `gorm:"serializer:column"`
	CreatedAt time.Time     `gorm:"serializer:column"`
	ExpiresAt time.Time     `gorm:"serializer:column"`
	RevokedAt *time.Time    `gorm:"serializer:column"`
	// when its Successor was issued; ExpiresAt is then the end of the grace period
	ReplacedAt *time.Time `gorm:"serializer:column"`
	Successor  string     `gorm:"column:successor_id;serializer:column"`
	LastUsedAt *time.Time `gorm:"serializer:column"` // up to some seconds old; nil if never used
}

type row struct {
	Key `gorm:"embedded"`

	Digest string
}

func (row) TableName() string { return "api_keys" }

// Status is the state of a key.
type Status string

const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Title returns the name of the key for display.
func (k Key) Title() string { return cmp.Or(k.Name, "Unnamed key") }

// Shown returns the visible part of the key.
func (k Key) Shown() string { return k.Prefix + "…" + k.LastFour }

// Counts reports whether the key counts towards MaxActive at now.
func (k Key) Counts(now time.Time) bool { return k.StatusAt(now) == Active && k.ReplacedAt == nil }

// StatusAt returns the status of the key at now. A revoked key stays revoked after its expiry.
func (k Key) StatusAt(now time.Time) Status {
	switch {
	case k.RevokedAt != nil:
		return Revoked
	case !now.Before(k.ExpiresAt):
		return Expired
	default:
		return Active
	}
}

// Listed returns the key at now as operators see it.
func (k Key) Listed(now time.Time) api.ListedKey {
	return api.ListedKey{
		ID: k.ID, Account: k.Account, Tier: k.TierAt(now), Prefix: k.Prefix, LastFour: k.LastFour, UseCase: k.UseCase,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Status: string(k.StatusAt(now)),
		Name: k.Name, ReplacedAt: k.ReplacedAt, Successor: k.Successor, LastUsedAt: k.LastUsedAt,
	}
}

// Store stores keys and key requests.
type Store struct{ db *accountdb.DB }

// NewStore returns a Store.
func NewStore(db *accountdb.DB) *Store { return &Store{db} }

const owned = `SELECT k.*, a.tier FROM api_keys k JOIN accounts a ON a.id = k.account_id `

// Counted selects keys k for which Key.Counts is true. Its parameter is the current time.
const Counted = `k.revoked_at IS NULL AND k.replaced_at IS NULL AND k.expires_at > ?`

// findKeys returns the keys k that where selects, with the entitlements of their accounts.
func findKeys(db *gorm.DB, where string, args ...any) ([]Key, error) {
	var found []Key
	if err := db.Raw(owned+where, args...).Scan(&found).Error; err != nil {
		return nil, err
	}
	holders := make([]string, len(found))
	for i, k := range found {
		holders[i] = k.Account
	}
	slices.Sort(holders)
	paid, err := account.Paid(db, slices.Compact(holders)...)
	for i := range found {
		found[i].Paid = paid[found[i].Account]
	}
	return found, err
}

func findKey(db *gorm.DB, where string, args ...any) (Key, error) {
	found, err := findKeys(db, where, args...)
	if err == nil && len(found) == 0 {
		err = problem.NoSuch("key")
	}
	if err != nil {
		return Key{}, err
	}
	return found[0], nil
}

func lockOwnKey(tx *accountdb.Tx, id, key string) (Key, error) {
	var r row
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Take(&r, "id = ? AND account_id = ?", key, id).Error
	return r.Key, accountdb.Found(err, "key")
}

// Revoke revokes a key on behalf of actor and returns it. Revoking it again changes nothing. If
// leaked, the mail to the holder says that others may have the key.
func (s *Store) Revoke(ctx context.Context, actor, id string, leaked bool) (Key, error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Key, error) { return revoke(tx, actor, id, leaked) })
}

func revoke(tx *accountdb.Tx, actor, id string, leaked bool) (Key, error) {
	if err := tx.TouchOwner(id); err != nil { // also of a revoked key: the revocation may not be in effect yet
		return Key{}, err
	}
	update := tx.Table("api_keys").Where("id = ? AND revoked_at IS NULL", id).Update("revoked_at", database.Micros(tx.Now))
	if update.Error != nil {
		return Key{}, update.Error
	}
	key, err := findKey(tx.DB, "WHERE k.id = ?", id)
	if err != nil || update.RowsAffected == 0 {
		return key, err
	}
	detail, template := map[string]any{"account": key.Account}, "key-revoked"
	if leaked {
		detail["leaked"], template = true, "key-leaked"
	}
	return key, errors.Join(
		tx.Touch(key.Account), // it may have been connected meanwhile
		tx.Record(actor, "key.revoke", id, detail),
		tx.Notify(key.Account, template, map[string]string{"name": key.Title(), "key": key.Shown()}),
	)
}

// RevokeOwn revokes a key of the account on behalf of its person.
func (s *Store) RevokeOwn(ctx context.Context, id, key string) (Key, error) {
	return accountdb.Result(ctx, s.db, func(tx *accountdb.Tx) (Key, error) {
		if err := tx.Touch(id); err != nil {
			return Key{}, err
		}
		if _, err := lockOwnKey(tx, id, key); err != nil {
			return Key{}, err
		}
		return revoke(tx, id, key, false)
	})
}

// EndAll revokes all keys of an account that is being closed and withdraws its open requests. It
// returns the number of keys.
func EndAll(tx *accountdb.Tx, accountID string) (int, error) {
	if err := tx.Touch(accountID); err != nil {
		return 0, err
	}
	var revoked []string
	err := tx.Raw(
		"UPDATE api_keys SET revoked_at = ? WHERE account_id = ? AND revoked_at IS NULL AND expires_at > ? RETURNING id",
		database.Micros(tx.Now), accountID, database.Micros(tx.Now)).Scan(&revoked).Error
	if err != nil {
		return 0, err
	}
	for _, id := range revoked {
		if err := tx.Record(accountID, "key.revoke", id, map[string]any{"account": accountID}); err != nil {
			return 0, err
		}
	}
	return len(revoked), tx.Table("key_requests").Where("account_id = ? AND state IN ?", accountID, openStates).
		Updates(map[string]any{"state": Withdrawn, "decided_at": database.Micros(tx.Now)}).Error
}

// Resolved is a key with what else decides about requests with it.
type Resolved struct {
	Key

	Suspended bool
	Epoch     accountdb.Epoch // of the account
}

// Resolve returns the key with one of the digests.
func (s *Store) Resolve(ctx context.Context, digests []string) (Resolved, error) {
	return s.resolve(ctx, "k.digest IN ?", digests)
}

// ResolveOwn returns a key of the account.
func (s *Store) ResolveOwn(ctx context.Context, id, key string) (Resolved, error) {
	return s.resolve(ctx, "k.id = ? AND k.account_id = ?", key, id)
}

// resolve reads the key that where selects, in one statement, because every lookup of a gateway
// does.
func (s *Store) resolve(ctx context.Context, where string, args ...any) (found Resolved, err error) {
	var rows []struct {
		Key         Key `gorm:"embedded"`
		SuspendedAt *int64
		Epoch       accountdb.Epoch     `gorm:"embedded"`
		Paid        account.Entitlement `gorm:"embedded;embeddedPrefix:paid_"` // with version 0 if there is none
	}
	err = s.db.WithContext(ctx).Raw(`SELECT k.*, a.tier, a.suspended_at, `+accountdb.EpochColumns+`,
			coalesce(e.tier, '') AS paid_tier, e.paid_until AS paid_paid_until, coalesce(e.renews, false) AS paid_renews,
			coalesce(e.trouble, '') AS paid_trouble, coalesce(e.version, 0) AS paid_version
		FROM api_keys k JOIN accounts a ON a.id = k.account_id LEFT JOIN entitlements e ON e.holder_id = a.id
		WHERE `+where+" ORDER BY e.account_id", args...).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		err = problem.NoSuch("key")
	}
	if err != nil {
		return found, database.Outage(err)
	}
	found = Resolved{rows[0].Key, rows[0].SuspendedAt != nil, rows[0].Epoch}
	for _, r := range rows {
		if r.Paid.Version > 0 {
			found.Paid = append(found.Paid, api.Entitlement(r.Paid))
		}
	}
	return found, nil
}

// clockTolerance limits the delay of the clock of a gateway that ends paid periods on time by that
// clock.
const clockTolerance = time.Minute

// Principal returns the key as gateways see it at now, revoked and expired keys included. It
// returns an error if the tier of the account is unknown.
//
// A paid period that ended within clockTolerance is still the tier, and its end the next change. So
// each gateway ends it by its own clock. There is one next change, so this holds only if no other
// follows.
func (k Resolved) Principal(now time.Time, tiers account.TierTable) (api.Principal, error) {
	if _, _, follows := k.ChangeAfter(now); !follows {
		now = now.Add(-clockTolerance)
	}
	current := k.TierAt(now)
	limits, ok := tiers[current]
	if !ok {
		return api.Principal{}, fmt.Errorf("account %s has the unknown tier %q", k.Account, current)
	}
	p := api.Principal{
		Key: k.ID, Account: k.Account, Tier: current, Limits: limits, Epoch: k.Epoch.Number,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Suspended: k.Suspended,
	}
	if at, to, ok := k.ChangeAfter(now); ok {
		p.Next = &api.PrincipalChange{At: at, Tier: to, Limits: tiers[to]}
	}
	return p, nil
}

func rejection(format string, args ...any) error {
	return problem.New(problem.InvalidParameter, format, args...)
}
