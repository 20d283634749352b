package keys

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Store stores keys and key requests.
type Store struct{ db *accountdb.DB }

// NewStore returns a Store.
func NewStore(db *accountdb.DB) *Store { return &Store{db} }

type row struct {
	Key `gorm:"embedded"`

	Digest string
}

func (row) TableName() string { return "api_keys" }

// create stores a new key with the tier and the entitlements of its account.
func create(tx *accountdb.Tx, a account.Account, key Key, stored Record) (Key, error) {
	key.Standing, key.Account, key.CreatedAt = a.Standing, a.ID, tx.Now
	key.Prefix, key.LastFour = stored.Prefix, stored.LastFour
	return key, tx.DB.Omit("tier").Create(&row{key, stored.Digest}).Error
}

const owned = `SELECT k.*, a.tier FROM api_keys k JOIN accounts a ON a.id = k.account_id `

// Counted selects keys k for which Key.Counts is true. Its parameter is the current time.
const Counted = `k.revoked_at IS NULL AND k.replaced_at IS NULL AND k.expires_at > ?`

// named is Counted with a named parameter.
var named = strings.Replace(Counted, "?", "@now", 1)

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

// Keys returns a page of the keys that match, in order of creation. more reports whether another
// page follows.
func (s *Store) Keys(ctx context.Context, of Filter, page account.Page) (listed []Key, more bool, err error) {
	db, where, args := s.db.WithContext(ctx), "WHERE k.id > ? ", []any{page.After}
	if of.Account != "" {
		if _, err := account.Read(db, of.Account); err != nil {
			return nil, false, database.Outage(err)
		}
		where, args = where+"AND k.account_id = ? ", append(args, of.Account)
	}
	if of.UseCase != "" {
		where, args = where+"AND k.use_case = ? ", append(args, of.UseCase)
	}
	where += "ORDER BY k.id"
	if page.Limit > 0 {
		where, args = where+" LIMIT ?", append(args, page.Limit+1)
	}
	listed, err = findKeys(db, where, args...)
	if more = page.Limit > 0 && len(listed) > page.Limit; more {
		listed = listed[:page.Limit]
	}
	return listed, more, database.Outage(err)
}

// OwnKeys returns all keys of the account, oldest first.
func (s *Store) OwnKeys(ctx context.Context, id string) ([]Key, error) {
	own, _, err := s.Keys(ctx, Filter{Account: id}, account.Page{})
	return own, err
}

// Rename sets the name, which must be valid, of a key of the account.
func (s *Store) Rename(ctx context.Context, id, key, name string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		before, err := lockOwnKey(tx, id, key)
		if err != nil || before.Name == name {
			return err
		}
		return errors.Join(tx.Table("api_keys").Where("id = ?", key).Update("name", name).Error,
			tx.Record(id, "key.rename", key, map[string]any{"account": id, "from": before.Name, "to": name}))
	})
}

func lockOwnKey(tx *accountdb.Tx, id, key string) (Key, error) {
	var r row
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Take(&r, "id = ? AND account_id = ?", key, id).Error
	return r.Key, accountdb.Found(err, "key")
}

// digestRetention is the time for which gateways know a key that has ended, to say that it was
// revoked or expired.
const digestRetention = 90 * 24 * time.Hour

// unusedRetention is the same for a key that was revoked before its first use.
const unusedRetention = 24 * time.Hour

// KeyDigests returns up to limit digests of keys that follow the position. It omits those that
// ended before digestRetention, or unused before unusedRetention: requests with them are those with
// an unknown key. A position that is not in this database, because the database was restored,
// restarts the list from its beginning.
func (s *Store) KeyDigests(ctx context.Context, after api.KeyPosition, limit int) (api.KeyDigests, error) {
	rows, err := s.keyDigests(ctx, after.Sequence, limit+2) // from the key at the position to the one behind the page
	page := api.KeyDigests{After: after}
	switch {
	case err != nil:
		return page, err
	case after.Sequence > 0 && len(rows) > 0 && rows[0].Sequence == after.Sequence && rows[0].Digest == after.Digest:
		rows = rows[1:]
	case after.Sequence > 0:
		page.After = api.KeyPosition{}
		if rows, err = s.keyDigests(ctx, 0, limit+1); err != nil {
			return page, err
		}
	}
	if page.More = len(rows) > limit; page.More {
		rows = rows[:limit]
	}
	page.Digests = make([]string, len(rows))
	for i, r := range rows {
		page.Digests[i] = r.Digest
	}
	page.Last = page.After
	if len(rows) > 0 {
		page.Last = rows[len(rows)-1]
	}
	return page, nil
}

// keyDigests returns keys from a sequence on, the one with that sequence in any case.
func (s *Store) keyDigests(ctx context.Context, from int64, limit int) (rows []api.KeyPosition, err error) {
	ago := func(d time.Duration) int64 { return database.Micros(s.db.Now().Add(-d)) }
	err = s.db.WithContext(ctx).Raw(`SELECT sequence, substr(digest, 1, ?) AS digest FROM api_keys
		WHERE sequence = ? OR sequence > ? AND coalesce(revoked_at, expires_at) > ?
			AND (revoked_at IS NULL OR last_used_at IS NOT NULL OR revoked_at > ?) ORDER BY sequence LIMIT ?`,
		api.KeyDigestLength, from, from, ago(digestRetention), ago(unusedRetention), limit).Scan(&rows).Error
	return rows, database.Outage(err)
}

// Overview is the summary on the home page of the account.
type Overview struct {
	Active   int        // active keys without a successor
	Expiring *time.Time `gorm:"serializer:column"` // the earliest expiry of these
	Pending  int        // undecided requests
	Ready    int        // approved requests whose keys were not collected yet
	Called   bool       // whether any key of the account was ever used
}

// InUse returns the number of MaxActive keys in use, pending requests included.
func (o Overview) InUse() int { return o.Active + o.Pending + o.Ready }

// Overview returns the summary for the home page of the account.
func (s *Store) Overview(ctx context.Context, id string) (o Overview, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT k.active, k.expiring, k.called, r.pending, r.ready FROM
		(SELECT COUNT(CASE WHEN works THEN 1 END) AS active, MIN(CASE WHEN works THEN expires_at END) AS expiring,
			COUNT(last_used_at) > 0 AS called
			FROM (SELECT k.expires_at, k.last_used_at, `+Counted+` AS works FROM api_keys k WHERE account_id = ?) AS keys) AS k,
		(SELECT COUNT(CASE state WHEN 'asked' THEN 1 END) AS pending, COUNT(CASE state WHEN 'approved' THEN 1 END) AS ready
			FROM key_requests WHERE account_id = ?) AS r`, database.Micros(s.db.Now()), id, id).Scan(&o).Error
	return o, database.Outage(err)
}
