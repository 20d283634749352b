package store

import (
	"cmp"
	"context"
	"time"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/usage"
)

// ByDay is how the calls of an account's keys ended on the days of a range.
func (s *Store) ByDay(ctx context.Context, account string, r usage.Range) ([]usage.DayCount, error) {
	var counts []usage.DayCount
	err := s.db.WithContext(ctx).Raw(`SELECT u.day, u.outcome, SUM(u.calls) AS calls
		FROM api_keys k JOIN usage_keys u ON u.key_id = k.id
		WHERE k.account_id = ? AND u.day BETWEEN ? AND ? GROUP BY u.day, u.outcome`, account, r.From, r.To).Scan(&counts).Error
	return counts, database.Outage(err)
}

// UsedOn is how many calls the ledger has charged to an account on a UTC day, after the moves of that day.
func (s *Store) UsedOn(ctx context.Context, account string, day time.Time) (int, error) {
	db, on := s.db.WithContext(ctx), counter.DayOf(day)
	var moves []moveRow
	if err := db.Find(&moves, "day = ? AND to_account = ?", on, account).Error; err != nil {
		return 0, database.Outage(err)
	}
	wanted := []string{account}
	for _, m := range moves {
		wanted = append(wanted, m.FromAccount, counter.Moved(m.FromAccount))
	}
	var rows []usageRow
	err := db.Find(&rows, "day = ? AND account_id IN ?", on, wanted).Error
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.AccountID] = r.Calls
	}
	return usage.Moved(counts, toMoves(moves))[account], database.Outage(err)
}

// Busiest are the keys of an account that made the most calls in a range, at most n, and what its other keys come to; total is
// what all of them come to.
func (s *Store) Busiest(ctx context.Context, account string, r usage.Range, n int, total usage.Figures) (usage.KeyCounts, error) {
	var rows []struct {
		ID, Name, Prefix, LastFour          string
		Served, NotFound, Failed, Calls, Of int
	}
	err := s.db.WithContext(ctx).Raw(`SELECT k.id, k.name, k.prefix, k.last_four, g.* FROM (
			SELECT u.key_id, SUM(u.calls) AS calls, COUNT(*) OVER () AS of,
				SUM(CASE u.outcome WHEN 'served' THEN u.calls ELSE 0 END) AS served,
				SUM(CASE u.outcome WHEN 'not_found' THEN u.calls ELSE 0 END) AS not_found,
				SUM(CASE u.outcome WHEN 'failed' THEN u.calls ELSE 0 END) AS failed
			FROM api_keys k JOIN usage_keys u ON u.key_id = k.id
			WHERE k.account_id = ? AND u.day BETWEEN ? AND ? GROUP BY u.key_id ORDER BY 2 DESC, 1 LIMIT ?) g
		JOIN api_keys k ON k.id = g.key_id ORDER BY g.calls DESC, k.id`, account, r.From, r.To, n).Scan(&rows).Error
	counts := usage.KeyCounts{Rest: total}
	for _, row := range rows {
		key := usage.KeyCount{ID: row.ID, Name: row.Name, Shown: row.Prefix + "…" + row.LastFour}
		key.Figures[usage.Served], key.Figures[usage.NotFound], key.Figures[usage.Failed] = row.Served, row.NotFound, row.Failed
		key.Figures[usage.Refused] = row.Calls - row.Served - row.NotFound - row.Failed
		counts.Busiest = append(counts.Busiest, key)
		counts.Rest = counts.Rest.Minus(key.Figures)
		counts.Others = row.Of - len(rows)
	}
	return counts, database.Outage(err)
}

// keysAtOnce bounds what Lines reads at a time, together with the days of a range.
const keysAtOnce = 50

// Lines hands an account's usage in a range to write, key by key and day by day, and stops at its first error. No connection is
// held while write works: it may wait for a slow reader.
func (s *Store) Lines(ctx context.Context, account string, r usage.Range, write func([]usage.Line) error) error {
	var keys []struct{ ID, Name, Prefix, LastFour string }
	err := s.db.WithContext(ctx).Raw("SELECT id, name, prefix, last_four FROM api_keys WHERE account_id = ? ORDER BY id", account).Scan(&keys).Error
	for err == nil && len(keys) > 0 {
		some := keys[:min(keysAtOnce, len(keys))]
		keys = keys[len(some):]
		ids, names := make([]string, len(some)), make(map[string]string, len(some))
		for i, k := range some {
			ids[i], names[k.ID] = k.ID, cmp.Or(k.Name, k.Prefix+"…"+k.LastFour)
		}
		var lines []usage.Line
		err = s.db.WithContext(ctx).Raw(`SELECT day, key_id AS key, outcome, calls FROM usage_keys
			WHERE key_id IN ? AND day BETWEEN ? AND ? ORDER BY key_id, day, outcome`, ids, r.From, r.To).Scan(&lines).Error
		for i := range lines {
			lines[i].Name = names[lines[i].Key]
		}
		if err == nil && len(lines) > 0 {
			err = write(lines)
		}
	}
	return database.Outage(err)
}
