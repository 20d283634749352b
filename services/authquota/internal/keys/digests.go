package keys

import (
	"context"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// KeyDigests returns up to limit digests of keys, revoked and expired ones included, that follow the position. A position that
// is not in this database, because the database was restored, restarts the list from its beginning.
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

// keyDigests returns keys from a sequence on.
func (s *Store) keyDigests(ctx context.Context, from int64, limit int) (rows []api.KeyPosition, err error) {
	err = s.db.WithContext(ctx).Raw("SELECT sequence, substr(digest, 1, ?) AS digest FROM api_keys WHERE sequence >= ? ORDER BY sequence LIMIT ?",
		api.KeyDigestLength, from, limit).Scan(&rows).Error
	return rows, database.Outage(err)
}
