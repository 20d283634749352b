package keys

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
)

// Filter selects keys for operators. Empty fields match every key.
type Filter struct {
	Account string // id
	UseCase string // exact
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

// Listed returns keys at now as operators see them.
func Listed(keys []Key, now time.Time) []api.ListedKey {
	list := make([]api.ListedKey, len(keys))
	for i, k := range keys {
		list[i] = k.Listed(now)
	}
	return list
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
