package keyusage

import (
	"context"
	"embed"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// CopyInterval is the time between copies.
const CopyInterval = time.Second

//go:embed *.lua
var scripts embed.FS

func script(name string) *redis.Script {
	source, err := scripts.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // embedded
	}
	return redis.NewScript(string(source))
}

var (
	copied = script("copied")
	finish = script("finish")
	move   = script("move")
)

// Counters are the daily counters in Redis, which limits are checked against, with their copy in
// the database: the ledger. If Redis loses its data, Restore brings a day back from the ledger, so
// that no quota can be used twice.
//
// The admission script adds each account that it charges to a set. A copy reads the accounts of
// that set, saves their counters, and then removes those whose counters have not changed since. So
// a process that stops in between loses nothing, and several may copy at the same time.
//
// The ledger stores the greater of both values. A counter in Redis is smaller than its copy after
// charges were refunded or after Redis lost data; the two cases look alike. So the ledger may
// include refunded requests, but it never loses a copied one.
//
// Known limitation: a loss of Redis data also loses the requests counted since the last copy,
// normally at most one second.
type Counters struct {
	redis *redis.Client
	store *Store

	copied   atomic.Pointer[time.Time] // time of the last successful copy
	restores singleflight.Group        // by day
}

// NewCounters returns Counters.
func NewCounters(client *redis.Client, store *Store) *Counters {
	c := &Counters{redis: client, store: store}
	c.copied.Store(new(store.db.Now()))
	return c
}

// Used returns the requests charged to an account on a UTC day. It is exact, while the ledger lags
// by up to a second. It returns an error if Redis is unavailable.
func (c *Counters) Used(ctx context.Context, account string, day time.Time) (int, error) {
	text, err := c.redis.HGet(ctx, counter.Day(counter.DayOf(day)), account).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, problem.Unavailable(err)
	}
	calls, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, nil // as in admit.lua until the ledger has replaced it
	}
	return int(calls), nil
}

// Recent returns the requests of an account that count against its limit of 60 seconds now. It
// returns an error if Redis is unavailable.
func (c *Counters) Recent(ctx context.Context, account string) (n int, err error) {
	pipe := c.redis.Pipeline()
	admitted, now := pipe.LRange(ctx, counter.Window(account), 0, -1), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, problem.Unavailable(err)
	}
	since := now.Val().Add(-time.Minute).UnixMicro()
	for _, text := range admitted.Val() {
		if at, err := strconv.ParseInt(text, 10, 64); err == nil && at > since {
			n++
		}
	}
	return n, nil
}

// Copy saves the counters of today and yesterday that changed since the last copy: requests are
// charged by the clock of Redis, which may lag. After a failure, saved counters may be saved again;
// none is left out. Several processes may copy at the same time.
func (c *Counters) Copy(ctx context.Context) error {
	now := c.store.db.Now()
	for ago := range 2 {
		if err := c.copyDay(ctx, counter.DayOf(now.AddDate(0, 0, -ago))); err != nil {
			return err
		}
	}
	c.copied.Store(&now)
	return nil
}

func (c *Counters) copyDay(ctx context.Context, day string) error {
	for cursor := uint64(0); ; {
		fields, next, err := c.redis.SScan(ctx, counter.Changed(day), cursor, "", pageSize).Result()
		if err != nil {
			return problem.Unavailable(err)
		}
		for page := range slices.Chunk(fields, pageSize) { // a small set comes at once, whatever its size
			if err := c.copyPage(ctx, day, page); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// copyPage leaves out values that cannot be a counter: the ledger has the latest before them.
func (c *Counters) copyPage(ctx context.Context, day string, fields []string) error {
	values, err := c.redis.HMGet(ctx, counter.Day(day), fields...).Result()
	if err != nil {
		return problem.Unavailable(err)
	}
	counts, read := make(map[string]int, len(fields)), make([]any, 0, 2*len(fields))
	for i, field := range fields {
		text, _ := values[i].(string)
		read = append(read, field, text)
		if n, err := strconv.ParseUint(text, 10, 31); err == nil && n > 0 {
			counts[field] = int(n)
		}
	}
	if err := c.store.SaveDay(ctx, day, counts); err != nil {
		return err
	}
	return unavailable(copied.Run(ctx, c.redis, []string{counter.Day(day), counter.Changed(day)}, read...).Err())
}

// Lag returns the age of the last successful copy.
func (c *Counters) Lag() time.Duration { return c.store.db.Now().Sub(*c.copied.Load()) }

const (
	pageSize   = 500         // counters of one command: about 1 ms of Redis' time
	restoreTTL = time.Minute // of an unfinished restore, after its latest page

	restoreLimit = time.Minute // for a restore, which outlives its callers
)

// Restore returns nil once the day has counters in Redis: it restores them if they are missing. At
// most one restore of a day runs in a process. It does not end with the context of its first
// caller, because others wait for it. Errors of Redis are service_unavailable.
//
// The counters are collected, page by page, under a key of their own, and become those of the day
// in one step when they are complete. So no request is admitted on a part of them. If Redis loses
// its data again, or a failover loses some pages, the restore starts over with what the ledger has
// then. Of several processes that restore a day, the first one to finish determines its counters.
func (c *Counters) Restore(ctx context.Context, day string) error {
	_, err, _ := c.restores.Do(day, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
		defer cancel()
		for {
			if n, err := c.redis.Exists(ctx, counter.Day(day)).Result(); err != nil || n > 0 {
				return nil, unavailable(err)
			}
			if complete, err := c.restore(ctx, day); err != nil || complete {
				return nil, err
			}
		}
	})
	return err
}

// restore reports whether the day has counters. Otherwise Redis has lost some while it restored
// them.
func (c *Counters) restore(ctx context.Context, day string) (complete bool, err error) {
	own, restored := counter.Restore(day, uuid.NewString()), 0
	err = c.store.EachPage(ctx, day, pageSize, func(counts []any) error {
		restored += len(counts) / 2
		_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, own, counts...)
			p.PExpire(ctx, own, restoreTTL)
			return nil
		})
		return unavailable(err)
	})
	if err != nil {
		return false, err
	}
	var moves []Move // read after the counts, which may include any of them
	if err := c.store.db.WithContext(ctx).Find(&moves, "day = ?", day).Error; err != nil {
		return false, database.Outage(err)
	}
	args := []any{restored, counter.ServiceField, counter.DayTTL.Milliseconds()}
	for _, m := range moves {
		args = append(args, m.From)
	}
	complete, err = finish.Run(ctx, c.redis, []string{counter.Day(day), own}, args...).Bool()
	return complete, unavailable(err)
}

func unavailable(err error) error {
	if err != nil {
		err = problem.Unavailable(err)
	}
	return err
}

// Move assigns the usage of one account on one day to another, which took over its keys. No further
// requests are charged to From.
type Move struct {
	Day     string `gorm:"primaryKey"`
	From    string `gorm:"primaryKey;column:from_account"`
	To      string `gorm:"column:to_account"`
	MovedAt *int64 // when Redis applied it
}

// TableName implements gorm's Tabler.
func (Move) TableName() string { return "usage_moves" }

// movesOf returns the moves for a takeover at now: for today, and for the adjacent days, because
// the clock of Redis may differ at midnight.
func movesOf(from, to string, now time.Time) (moves []Move) {
	for _, days := range []int{-1, 0, 1} {
		moves = append(moves, Move{Day: counter.DayOf(now.AddDate(0, 0, days)), From: from, To: to})
	}
	return moves
}

// MoveUsage assigns the usage of one account's keys to another, in the transaction that moves the
// keys. Their rows are locked, so no batch adds to the old account concurrently. The ledger has the
// sum at once; Redis applies the move of today's requests later. The ledger's counts of the old
// account stay and may still grow: a restore leaves them out.
func MoveUsage(tx *accountdb.Tx, from, to string) error {
	err := tx.Model(&KeySum{}).Where("account_id = ?", from).Update("account_id", to).Error
	if err == nil {
		err = tx.Exec(`INSERT INTO usage_outcomes (account_id, day, outcome, calls)
			SELECT ?, day, outcome, calls FROM usage_outcomes WHERE account_id = ? ORDER BY day, outcome
			ON CONFLICT (account_id, day, outcome) DO UPDATE SET calls = usage_outcomes.calls + excluded.calls`, to, from).Error
	}
	if err == nil {
		err = tx.Exec("DELETE FROM "+outcomesTable+" WHERE account_id = ?", from).Error
	}
	for _, m := range movesOf(from, to, tx.Now) {
		if err == nil {
			err = tx.Create(&m).Error
		}
		if err == nil {
			err = tx.Exec(`INSERT INTO usage_days (day, account_id, calls)
				SELECT day, ?, calls FROM usage_days WHERE day = ? AND account_id = ?
				ON CONFLICT (day, account_id) DO UPDATE SET calls = usage_days.calls + excluded.calls`, to, m.Day, from).Error
		}
	}
	return err
}

// MoveInterval is the time between calls of DeliverMoves for all accounts.
const MoveInterval = 5 * time.Second

// DeliverMoves applies the pending moves to one account in Redis, or all if to is empty. After it
// returns nil, usage counts for the target account and no request is charged to the source
// accounts. Redis errors are service_unavailable.
//
// Without a fault the sum is exact, and no fault charges a request twice: one script moves the
// counts and increments the epoch of the source account, and finds nothing to move when it runs
// again. A restore of a day that Redis lost leaves out the source account, because the ledger's
// counts of the target include its counts as of the merge. So a fault may lose what a merge moved,
// and the account may make as many requests again that day:
//
//   - a failover to a replica that lacks an applied move loses all of it;
//   - a loss of Redis within a second of the merge loses the requests that were not yet copied.
//
// The script also merges the windows of the last minute, so that connecting keys does not free
// capacity. The ledger does not contain windows: a loss of Redis data empties all of them.
func (c *Counters) DeliverMoves(ctx context.Context, to string) error {
	var pending []Move
	err := c.store.db.WithContext(ctx).Order("day, from_account").
		Find(&pending, "moved_at IS NULL AND (to_account = ? OR ? = '')", to, to).Error
	if err != nil {
		return database.Outage(err)
	}
	for _, m := range pending {
		keys := []string{
			counter.Epochs, counter.Merged, counter.Day(m.Day), counter.Window(m.From), counter.Window(m.To),
			counter.Changed(m.Day),
		}
		err := move.Run(ctx, c.redis, keys, m.From, m.To, int(counter.EpochsTTL.Seconds()),
			int(counter.DayTTL.Seconds())).Err()
		if err != nil {
			return problem.Unavailable(err)
		}
		err = c.store.db.WithContext(ctx).Model(&Move{}).
			Where("day = ? AND from_account = ? AND moved_at IS NULL", m.Day, m.From).
			Update("moved_at", database.Micros(c.store.db.Now())).Error
		if err != nil {
			return database.Outage(err)
		}
	}
	return nil
}
