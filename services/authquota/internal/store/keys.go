package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

type keyRow struct {
	ID          string `gorm:"primaryKey"`
	AccountID   string
	Digest      string
	Name        string
	Prefix      string
	LastFour    string
	UseCase     string
	Life        *int64 // microseconds
	CreatedAt   int64  `gorm:"autoCreateTime:false"`
	ExpiresAt   int64
	RevokedAt   *int64
	ReplacedAt  *int64
	SuccessorID *string
	LastUsedAt  *int64
}

func (keyRow) TableName() string { return "api_keys" }

// ownedRow is a key with the fields of its account that affect it.
type ownedRow struct {
	Row         keyRow `gorm:"embedded"`
	Tier        string
	SuspendedAt *int64

	Paid []api.Entitlement `gorm:"-"`
}

const owned = `SELECT k.*, a.tier, a.suspended_at FROM api_keys k JOIN accounts a ON a.id = k.account_id `

// activeCondition selects keys k for which account.Key.Counts is true. Its parameter is the current time.
const counts = `k.revoked_at IS NULL AND k.replaced_at IS NULL AND k.expires_at > ?`

func (r ownedRow) toKey() account.Key {
	key := account.Key{
		Standing: account.Standing{Granted: api.Tier(r.Tier), Paid: r.Paid},
		ID:       r.Row.ID, Account: r.Row.AccountID,
		Name: r.Row.Name, Prefix: r.Row.Prefix, LastFour: r.Row.LastFour, UseCase: r.Row.UseCase,
		CreatedAt: database.FromMicros(r.Row.CreatedAt), ExpiresAt: database.FromMicros(r.Row.ExpiresAt),
		RevokedAt: instant(r.Row.RevokedAt), ReplacedAt: instant(r.Row.ReplacedAt), LastUsedAt: instant(r.Row.LastUsedAt),
	}
	if r.Row.Life != nil {
		key.Life = time.Duration(*r.Row.Life) * time.Microsecond
	}
	if r.Row.SuccessorID != nil {
		key.Successor = *r.Row.SuccessorID
	}
	return key
}

// keyOf returns a key of an account.
func keyOf(a account.Account, row keyRow) account.Key {
	return ownedRow{Row: row, Tier: string(a.Granted), Paid: a.Paid}.toKey()
}

// Owner returns the account of the key with one of the digests. The account changes when the key is connected.
func (s *Store) Owner(ctx context.Context, digests []string) (string, error) {
	var owners []string
	err := s.db.WithContext(ctx).Raw("SELECT account_id FROM api_keys WHERE digest IN ?", digests).Scan(&owners).Error
	if err == nil && len(owners) == 0 {
		return "", account.KeyNotFound()
	}
	if err != nil {
		return "", database.Outage(err)
	}
	return owners[0], nil
}

// Resolve returns the key with one of the digests, and whether its account is suspended.
func (s *Store) Resolve(ctx context.Context, digests []string) (key account.Key, suspended bool, err error) {
	row, err := findKey(s.db.WithContext(ctx), "WHERE k.digest IN ?", digests)
	return row.toKey(), row.SuspendedAt != nil, database.Outage(err)
}

func findKey(tx *gorm.DB, where string, args ...any) (ownedRow, error) {
	var rows []ownedRow
	err := tx.Raw(owned+where, args...).Scan(&rows).Error
	if err == nil && len(rows) == 0 {
		err = account.KeyNotFound()
	}
	if err != nil {
		return ownedRow{}, err
	}
	return rows[0], addPaid(tx, rows[:1])
}

// addPaid adds the entitlements of their accounts to keys.
func addPaid(tx *gorm.DB, rows []ownedRow) error {
	ids := make([]string, 0, len(rows))
	for _, r := range rows {
		ids = append(ids, r.Row.AccountID)
	}
	slices.Sort(ids)
	paid, err := paidBy(tx, slices.Compact(ids)...)
	for i := range rows {
		rows[i].Paid = paid[rows[i].Row.AccountID]
	}
	return err
}

// Keys returns a page of the keys of one account, or of all if id is empty, in order of creation. more reports whether another
// page follows.
func (s *Store) Keys(ctx context.Context, id string, page account.Page) (keys []account.Key, more bool, err error) {
	where, args := "WHERE k.id > ? ", []any{page.After}
	if id != "" {
		err := s.db.WithContext(ctx).Take(&accountRow{}, "id = ?", id).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			err = account.NotFound()
		}
		if err != nil {
			return nil, false, database.Outage(err)
		}
		where, args = where+"AND k.account_id = ? ", append(args, id)
	}
	where += "ORDER BY k.id"
	if page.Limit > 0 {
		where, args = where+" LIMIT ?", append(args, page.Limit+1)
	}
	var rows []ownedRow
	err = s.db.WithContext(ctx).Raw(owned+where, args...).Scan(&rows).Error
	if more = page.Limit > 0 && len(rows) > page.Limit; more {
		rows = rows[:page.Limit]
	}
	if err == nil {
		err = addPaid(s.db.WithContext(ctx), rows)
	}
	keys = make([]account.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.toKey()
	}
	return keys, more, database.Outage(err)
}

// Issue creates a key in the account of the order, or in a new account. The order must be valid.
func (s *Store) Issue(ctx context.Context, actor string, order account.Order, life time.Duration, stored account.KeyRecord) (account.Key, error) {
	var key account.Key
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		a, err := holder(tx, now, actor, order)
		if err != nil {
			return err
		}
		row := keyRow{
			ID: account.NewKeyID(), AccountID: a.ID, Digest: stored.Digest, Prefix: stored.Prefix, LastFour: stored.LastFour,
			UseCase: order.UseCase, CreatedAt: database.Micros(now), ExpiresAt: database.Micros(now.Add(life)),
		}
		if life < account.MaxLife {
			us := life.Microseconds()
			row.Life = &us
		}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		key = keyOf(a, row)
		return record(tx, now, actor, "key.issue", key.ID, map[string]any{
			"account": key.Account, "tier": key.TierAt(now), "useCase": key.UseCase, "expiresAt": key.ExpiresAt, "test": order.Test,
		})
	})
	return key, err
}

// holder returns the account for a new key. It is locked until tx ends, so that the number of its keys does not change.
func holder(tx *gorm.DB, now time.Time, actor string, order account.Order) (account.Account, error) {
	if order.Account == "" {
		a := account.Account{Standing: account.Standing{Granted: order.Tier}, ID: account.NewID(), CreatedAt: now}
		row := fromAccount(a)
		if err := tx.Create(&row).Error; err != nil {
			return a, err
		}
		return a, record(tx, now, actor, "account.create", a.ID, map[string]any{"tier": a.Granted})
	}
	a, err := lockAccount(tx, order.Account)
	if err != nil {
		return a, err
	}
	if tier := a.TierAt(now); order.Tier != "" && order.Tier != tier {
		return a, account.OtherTier(a.ID, tier, order.Tier)
	}
	taken, err := keysInUse(tx, now, a.ID)
	if err == nil && taken >= account.MaxActive {
		err = account.TooManyKeys()
	}
	return a, err
}

// keysInUse returns how many of account.MaxActive keys are in use, including requests that may become keys. The account must be
// locked.
func keysInUse(tx *gorm.DB, now time.Time, id string) (taken int, err error) {
	err = tx.Raw(`SELECT (SELECT count(*) FROM api_keys k WHERE k.account_id = ? AND `+counts+`) +
		(SELECT count(*) FROM key_requests r WHERE r.account_id = ? AND r.state IN ?)`,
		id, database.Micros(now), id, openStates).Scan(&taken).Error
	return taken, err
}

// Revoke revokes a key on behalf of actor and returns it. Revoking it again changes nothing. If leaked, the mail to the holder
// says that others may have the key.
func (s *Store) Revoke(ctx context.Context, actor, id string, leaked bool) (account.Key, error) {
	var key account.Key
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) (err error) {
		key, err = s.revoke(tx, now, actor, id, leaked)
		return err
	})
	return key, err
}

func (s *Store) revoke(tx *gorm.DB, now time.Time, actor, id string, leaked bool) (account.Key, error) {
	update := tx.Model(&keyRow{}).Where("id = ? AND revoked_at IS NULL", id).Update("revoked_at", database.Micros(now))
	if update.Error != nil {
		return account.Key{}, update.Error
	}
	row, err := findKey(tx, "WHERE k.id = ?", id)
	if err != nil {
		return account.Key{}, err
	}
	key := row.toKey()
	if update.RowsAffected == 0 {
		return key, nil
	}
	detail, template := map[string]any{"account": key.Account}, "key-revoked"
	if leaked {
		detail["leaked"], template = true, "key-leaked"
	}
	return key, errors.Join(
		record(tx, now, actor, "key.revoke", id, detail), queueRaise(tx, key.Account),
		s.notify(tx, now, key.Account, template, map[string]string{"name": key.Title(), "key": key.Shown()}),
	)
}
