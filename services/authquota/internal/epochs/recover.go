package epochs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Lost has what Redis knows of the changes that a database lacks.
type Lost struct {
	Marks    []string // in Redis
	Accounts int      // that Accept has revoked what belongs to

	epochs map[string]string
	exact  bool // the accounts that have lost a change are those whose epochs differ
}

// ReadLost reads from Redis what the database lacks.
func ReadLost(ctx context.Context, client *redis.Client, store setback.Store) (l *Lost, err error) {
	hash, err := client.HGetAll(ctx, counter.Epochs).Result()
	if err != nil {
		return l, problem.Unavailable(err)
	}
	copies, err := client.HVals(ctx, counter.Marks).Result()
	if err != nil {
		return l, problem.Unavailable(err)
	}
	l = &Lost{Marks: append(slices.Clone(copies), hash[counter.EpochsMark]), epochs: hash}
	m, ok := setback.Parse(hash[counter.EpochsMark])
	if !ok {
		return l, nil
	}
	claims, err := store.Claims(ctx)
	if err != nil {
		return l, err
	}
	// If the database has the mark of Redis, then Redis lost its data after the lost changes, and
	// got it from this database. If a gateway has seen a newer one, changes were made during an
	// outage of Redis.
	v, err := store.Verdict(ctx, m)
	l.exact = v == setback.Lacking && !slices.ContainsFunc(append(claims, copies...), func(text string) bool {
		seen, ok := setback.Parse(text)
		return ok && seen.Generation == m.Generation && seen.Sequence > m.Sequence
	})
	return l, err
}

// Current records the decision of an operator that nothing was lost.
func Current(now time.Time, operator string) setback.Decision {
	return func(db *gorm.DB) error {
		return (&accountdb.Tx{DB: db, Now: now.UTC()}).Record(operator, "database.current", "authquota", map[string]any{})
	}
}

// Accept revokes everything with which a lost change could be undone, of the accounts that may have
// lost one: those whose epoch in Redis differs, or all if Redis does not know. Suspended and closed
// accounts are suspended and closed again.
func (l *Lost) Accept(now time.Time, operator string) setback.Decision {
	return func(db *gorm.DB) error { return l.accept(&accountdb.Tx{DB: db, Now: now.UTC()}, operator) }
}

func (l *Lost) accept(tx *accountdb.Tx, operator string) error {
	newest, err := l.newest(tx)
	if err != nil {
		return err
	}
	for after := ""; ; {
		var page []accountdb.Epoch
		if err := tx.Raw("SELECT "+accountdb.EpochColumns+" FROM accounts a WHERE a.id > ? ORDER BY a.id LIMIT ?", after,
			recoverPage).Scan(&page).Error; err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Account
		page = slices.DeleteFunc(page,
			func(e accountdb.Epoch) bool { return l.exact && l.epochs[e.Account] == strconv.FormatInt(e.Number, 10) })
		if err := l.revoke(tx, operator, newest, page); err != nil {
			return err
		}
		l.Accounts += len(page)
	}
	return errors.Join(
		tx.Exec("UPDATE links SET used_at = ? WHERE account_id IS NULL AND used_at IS NULL", database.Micros(tx.Now)).Error,
		tx.Exec("DELETE FROM mails").Error, // may have been sent
		tx.Exec("UPDATE announcements SET finished_at = ? WHERE finished_at IS NULL", database.Micros(tx.Now)).Error,
		tx.Record(operator, "database.accept", "authquota", map[string]any{"accounts": l.Accounts}))
}

const recoverPage = 500

// beyond is the distance of a new epoch to all known ones, in microseconds. Lost epochs may be
// above the time, if a clock was ahead.
const beyond = int64(time.Hour / time.Microsecond)

// newest returns an epoch above all of the database and of Redis, and above those that are lost. It
// ignores those of Redis that no clock can have made.
func (l *Lost) newest(tx *accountdb.Tx) (newest int64, err error) {
	err = tx.Raw("SELECT coalesce(max(epoch), 0) FROM accounts").Scan(&newest).Error
	newest = max(newest, database.Micros(tx.Now))
	for _, text := range l.epochs {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n < database.Micros(tx.Now.AddDate(0, 0, 1)) {
			newest = max(newest, n)
		}
	}
	return newest + beyond, err
}

func (l *Lost) revoke(tx *accountdb.Tx, operator string, epoch int64, accounts []accountdb.Epoch) error {
	now := database.Micros(tx.Now)
	states := map[string][]string{}
	var ids []string
	for _, e := range accounts {
		ids = append(ids, e.Account)
		state := l.epochs[counter.State(e.Account)]
		states[state] = append(states[state], e.Account)
	}
	for _, statement := range []string{
		"UPDATE accounts SET epoch = @epoch WHERE id IN @ids",
		"UPDATE api_keys SET revoked_at = @now WHERE account_id IN @ids AND revoked_at IS NULL",
		"UPDATE sessions SET ended_at = @now, new_seed = '' WHERE account_id IN @ids AND ended_at IS NULL",
		"UPDATE links SET used_at = @now WHERE account_id IN @ids AND used_at IS NULL",
		"DELETE FROM recovery_codes WHERE account_id IN @ids",
		"DELETE FROM passkeys WHERE account_id IN @ids",
		"DELETE FROM devices WHERE account_id IN @ids",
		`UPDATE people SET password_hash = '', totp_seed = '', totp_confirmed_at = NULL, reset_at = NULL WHERE account_id IN
			@ids`,
		`INSERT INTO audit_log (at, actor, action, subject, detail)
			SELECT @now, @operator, 'account.recover', id, '{}' FROM accounts WHERE id IN @ids`,
		"UPDATE accounts SET suspended_at = @now, suspend_reason = @reason WHERE id IN @suspended AND suspended_at IS NULL",
		"UPDATE people SET email = 'closed:' || account_id, closed_at = @now WHERE account_id IN @closed AND closed_at IS " +
			"NULL",
		"UPDATE sessions SET agent = '', network = '' WHERE account_id IN @closed",
		"DELETE FROM links WHERE account_id IN @closed",
	} {
		err := tx.Exec(statement, map[string]any{
			"now": now, "epoch": epoch, "ids": ids, "operator": operator, "reason": "suspended before the database was restored",
			"suspended": states[counter.SuspendedState], "closed": states[counter.ClosedState],
		}).Error
		if err != nil {
			return err
		}
	}
	return nil
}
