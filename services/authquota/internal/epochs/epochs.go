// Package epochs publishes the epochs of accounts in Redis, and notices with them that the database
// or Redis was set back.
//
// Any change to what an account may do raises its epoch, in the transaction of the change. Gateways
// cache a principal together with its epoch and compare the two on every admission, so a change
// applies to the next request on every gateway.
//
// Redis has the epochs and the mark of the newest change whose epochs are there. The mark is in the
// same hash: both are lost together. A change is acknowledged once one script has published its
// epochs and its mark. The script publishes only if the mark in Redis is one that this database
// has; otherwise the owner looks it up, and its own change too. So:
//
//   - A change that was interrupted before that is published by the next change, lookup or poll.
//   - A database that lacks an acknowledged change is noticed by the next change, lookup or poll,
//     and then serves nothing.
//   - A Redis that lost its data gets all epochs again. One with older data, as after a failover,
//     gets those of the changes since.
//
// Redis errors are service_unavailable.
package epochs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Epochs is the publisher of one process.
type Epochs struct {
	*setback.Guard

	Redis *redis.Client
	DB    *accountdb.DB

	mu        sync.Mutex
	published setback.Mark // newest one that this process has seen in Redis

	polling sync.Mutex
	waited  int // polls without any mark outside the database
}

const (
	attempts = 10 // of a script that competes with those of other processes
	waits    = 3  // polls for which a process without any mark waits for the gateways
	// maxAbsence is the longest time without a running process after which a process serves
	// although no mark is remembered.
	maxAbsence   = 10 * time.Minute
	aliveEvery   = time.Minute
	maxChanges   = 1000 // that are published one by one; after more, all epochs are
	pageSize     = 1000
	publishLimit = 2 * time.Second
)

// Poll compares the database with the marks in Redis, of this package and of the gateways, and
// publishes what is missing there. Call it at the start and every second.
func (e *Epochs) Poll(ctx context.Context) error { return e.poll(ctx, 1) }

func (e *Epochs) poll(ctx context.Context, waited int) error {
	e.polling.Lock()
	defer e.polling.Unlock()
	pipe := e.Redis.Pipeline()
	own, gateways := pipe.HGet(ctx, counter.Epochs, counter.EpochsMark), pipe.HGet(ctx, counter.Marks, peer.Authquota)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return errors.Join(problem.Unavailable(err), e.Guard.Poll(ctx))
	}
	published, ok := setback.Parse(own.Val())
	newest, _, err := e.Verify(ctx, own.Val(), gateways.Val())
	if e.Err() != nil {
		return e.discard(ctx, published)
	}
	if err != nil {
		return err
	}
	if _, remembered := setback.Parse(gateways.Val()); !ok && !remembered && newest.Sequence > 0 &&
		e.Published() == (setback.Mark{}) {
		if e.waited += waited; e.waited <= waits {
			return problem.Unavailable(errors.New("waiting for marks that gateways remember"))
		}
		if err := e.absence(ctx); err != nil {
			return err
		}
	}
	if ok {
		e.saw(published)
	}
	if published == newest {
		return nil
	}
	return e.publish(ctx, own.Val(), newest, nil)
}

// discard deletes the epochs in Redis of a database that is set back, if they are from this
// database: Redis was lost after the lost changes, and filled before that was noticed. What
// gateways looked up meanwhile is then not used any longer.
func (e *Epochs) discard(ctx context.Context, published setback.Mark) error {
	if v, err := e.Verdict(ctx, published); err != nil || v != setback.Present {
		return err
	}
	if err := e.Redis.Del(ctx, counter.Epochs).Err(); err != nil {
		return problem.Unavailable(err)
	}
	return nil
}

// absence stops the service if no process has run for longer than maxAbsence: the database may be
// an old backup.
func (e *Epochs) absence(ctx context.Context) error {
	var alive int64
	err := e.DB.WithContext(ctx).Raw("SELECT alive_at FROM generations ORDER BY began_at DESC LIMIT 1").Scan(&alive).Error
	if err != nil || alive == 0 || e.DB.Now().Sub(database.FromMicros(alive)) <= maxAbsence {
		return database.Outage(err)
	}
	return e.Claim(ctx, "unknown")
}

// Alive records that a process is running. Call it every minute. It does nothing before the first
// Poll has decided that no one was absent.
func (e *Epochs) Alive(ctx context.Context) error {
	if e.Published() == (setback.Mark{}) {
		return nil
	}
	now := e.DB.Now()
	return database.Outage(e.DB.WithContext(ctx).Exec(`UPDATE generations SET alive_at = ? WHERE alive_at < ?
		AND id = (SELECT id FROM generations ORDER BY began_at DESC LIMIT 1)`, database.Micros(now),
		database.Micros(now.Add(-aliveEvery/2))).Error)
}

// Pending returns the number of changes that are saved and not published, as far as this process
// knows.
func (e *Epochs) Pending() float64 {
	published, newest := e.Published(), e.Known()
	if published.Generation != newest.Generation {
		return 0
	}
	return float64(max(0, newest.Sequence-published.Sequence))
}

// Published implements accountdb.Publisher.
func (e *Epochs) Published() setback.Mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.published
}

// saw makes m the newest mark that this process has seen in Redis, unless it has seen a newer one.
func (e *Epochs) saw(m setback.Mark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.published.Generation != m.Generation || e.published.Sequence < m.Sequence {
		e.published = m
		e.Made(m)
	}
}

// Publish implements accountdb.Publisher.
func (e *Epochs) Publish(ctx context.Context, verified, m setback.Mark, epochs []accountdb.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	return e.publish(ctx, verified.String(), m, epochs)
}

// publish makes m the mark in Redis, with the epochs of all changes up to it. stored is the mark in
// Redis, which the database with the change m has, or what is there instead. epochs are those of
// the change m; nil if unknown.
func (e *Epochs) publish(ctx context.Context, stored string, m setback.Mark, epochs []accountdb.Epoch) error {
	for range attempts {
		if len(stored) > 100 { // as the script reads it
			stored = ""
		}
		from, _ := setback.Parse(stored)
		if from.Generation == m.Generation && from.Sequence >= m.Sequence { // with the epochs of m
			e.saw(from)
			return nil
		}
		missing, err := epochs, error(nil)
		if epochs == nil || from.Generation != m.Generation || from.Sequence+1 != m.Sequence {
			if missing, err = e.since(ctx, from, stored, m); err != nil {
				return err
			}
			missing = append(missing, epochs...)
		}
		// Set, because a wrong epoch in Redis may be higher: what is newer than m is not
		// acknowledged yet, and is published again.
		found, err := e.replace(ctx, stored, m.String(), "set", missing)
		if err != nil {
			return err
		}
		if found == stored {
			e.saw(m)
			return nil
		}
		// Another process has published, a store was set back, or an operator has decided.
		if _, _, err := e.Verify(ctx, found); err != nil {
			return err
		}
		switch v, err := e.Verdict(ctx, m); {
		case err != nil:
			return err
		case v != setback.Present:
			return problem.Unavailable(errors.New("a failover of the database lost the change, which was not acknowledged"))
		}
		stored = found
	}
	return problem.Unavailable(errors.New("other processes published on each attempt"))
}

// since returns the epochs of accounts that changed after the mark from up to m, or of none if it
// has published those of all accounts.
func (e *Epochs) since(ctx context.Context, from setback.Mark, stored string, m setback.Mark) ([]accountdb.Epoch,
	error) {
	if from.Generation != m.Generation || m.Sequence-from.Sequence > maxChanges {
		return nil, e.fill(ctx, stored)
	}
	var lists []string
	err := e.DB.WithContext(ctx).
		Raw("SELECT accounts FROM changes WHERE sequence > ? AND sequence <= ?", from.Sequence, m.Sequence).Scan(&lists).Error
	if err != nil || len(lists) == 0 {
		return nil, database.Outage(err)
	}
	var epochs []accountdb.Epoch
	for ids := range slices.Chunk(strings.Split(strings.Join(lists, ","), ","), pageSize) {
		page, err := e.DB.Epochs(ctx, "a.id IN ?", ids)
		if err != nil {
			return nil, err
		}
		epochs = append(epochs, page...)
	}
	return epochs, nil
}

// fill publishes the epochs of all accounts, as long as the mark in Redis is stored.
func (e *Epochs) fill(ctx context.Context, stored string) error {
	for after := ""; ; {
		page, err := e.DB.Epochs(ctx, "a.id > ? ORDER BY a.id LIMIT ?", after, pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		found, err := e.replace(ctx, stored, "", "", page)
		if err != nil || found != stored {
			return err
		}
		after = page[len(page)-1].Account
	}
}

func (e *Epochs) replace(ctx context.Context, verified, newest, mode string, epochs []accountdb.Epoch) (stored string,
	err error) {
	var args []any
	for _, n := range epochs {
		args = append(args, n.Account, n.Number, counter.State(n.Account), n.State)
	}
	if stored, err = setback.Replace(ctx, e.Redis, counter.Epochs, counter.EpochsMark, verified, newest, mode,
		args...); err != nil {
		return "", errors.Join(accountdb.ErrNotInEffect, err)
	}
	return stored, nil
}

// InEffect calls read until the epoch that it returns is the one in Redis, so that a gateway that
// compares it notices every later change. It returns an error (503) if the database is set back.
func (e *Epochs) InEffect(ctx context.Context, read func(context.Context) (accountdb.Epoch, error)) error {
	if err := e.Err(); err != nil {
		return err
	}
	for range 3 {
		epoch, err := read(ctx)
		if err != nil {
			return err
		}
		if same, err := e.same(ctx, epoch); err != nil || same {
			return err
		}
		if err := e.repair(ctx, epoch.Account); err != nil {
			return err
		}
	}
	return problem.Unavailable(errors.New("the epoch of the account changed on each attempt"))
}

// same reports whether an epoch is the one in Redis.
func (e *Epochs) same(ctx context.Context, epoch accountdb.Epoch) (bool, error) {
	published, err := e.Redis.HGet(ctx, counter.Epochs, epoch.Account).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, problem.Unavailable(err)
	}
	return published == strconv.FormatInt(epoch.Number, 10), nil
}

// repair publishes what Redis lacks, and sets the epoch of an account there if it differs from the
// database although the database has the mark.
func (e *Epochs) repair(ctx context.Context, account string) error {
	if err := errors.Join(e.poll(ctx, 0), e.Err()); err != nil {
		return err
	}
	published := e.Published()
	epochs, err := e.DB.Epochs(ctx, "a.id = ? AND EXISTS (SELECT 1 FROM changes WHERE sequence = ? AND id = ?)", account,
		published.Sequence, published.ID)
	if err != nil || len(epochs) == 0 {
		return err
	}
	_, err = e.replace(ctx, published.String(), "", "set", epochs)
	return err
}

// Current returns an error (503) if an epoch that was read from the database shows that it was set
// back. During an outage of Redis it does not.
func (e *Epochs) Current(ctx context.Context, epoch accountdb.Epoch) error {
	if same, err := e.same(ctx, epoch); err == nil && !same {
		_ = e.poll(ctx, 0)
	}
	return e.Err()
}

// Reachable returns an error if Redis does not reply.
func (e *Epochs) Reachable(ctx context.Context) error {
	if err := e.Redis.Ping(ctx).Err(); err != nil {
		return problem.Unavailable(err)
	}
	return nil
}
