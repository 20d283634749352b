package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/feed"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/setback"
)

const (
	pollInterval = time.Second
	pollTimeout  = 5 * time.Second
)

var errNotCompared = errors.New("database not compared with the marks that others remember yet")

// Guard adds a guard of the database to the service, whose changes are in a table. The guard
// compares the database every second by poll, or by Guard.Poll if that is nil. The service is not
// ready before poll has succeeded.
func (r *Runtime) Guard(changes string, poll func(context.Context, *setback.Guard) error) *setback.Guard {
	g := setback.New(r.name, setback.Store{DB: r.DB, Changes: changes}, r.Log, r.Registry)
	var compared atomic.Bool
	r.Ready.Add(api.SetBackCondition, func(context.Context) error {
		if g.Err() != nil {
			return setback.ErrSetBack
		}
		return nil
	})
	r.Ready.Add("comparison", func(context.Context) error {
		if !compared.Load() {
			return errNotCompared
		}
		return nil
	})
	if poll == nil {
		poll = func(ctx context.Context, g *setback.Guard) error { return g.Poll(ctx) }
	}
	r.Every(Loop{Name: "set back", Interval: pollInterval, Timeout: pollTimeout, Do: func(ctx context.Context) error {
		err := poll(ctx, g)
		if err == nil {
			compared.Store(true)
		}
		return UnlessReported(err)
	}})
	return g
}

// Feed returns the feed of changes of a database with a guard.
func Feed[T any](g *setback.Guard, changes func(ctx context.Context, after int64, limit int) ([]T, error),
) feed.Source[T] {
	return feed.Source[T]{
		Verify: func(ctx context.Context, mark string, position int64) (newest string, lost bool, err error) {
			m, lost, err := g.Verify(ctx, mark)
			_, ok := setback.Parse(mark)
			return m.String(), lost || !ok || err == nil && position > m.Sequence, err
		},
		Changes: func(ctx context.Context, after int64, limit int) ([]T, error) {
			if err := g.Err(); err != nil {
				return nil, err
			}
			return changes(ctx, after, limit)
		},
		Moved: g.Moved,
	}
}

// UnlessReported returns nil for an error that is logged elsewhere: the database is set back, or a
// peer is unavailable, which the requests to it report.
func UnlessReported(err error) error {
	if e := new(problem.Error); errors.Is(err, setback.ErrSetBack) || errors.As(err, &e) &&
		e.Code == problem.ServiceUnavailable {
		return nil
	}
	return err
}

// NotSetBack returns setback.ErrSetBack if a process of the service has found the database set
// back. It is for verbs, which have no guard.
func (r *Runtime) NotSetBack(ctx context.Context) error {
	claims, err := setback.Store{DB: r.DB}.Claims(ctx)
	if err == nil && len(claims) > 0 {
		err = setback.ErrSetBack
	}
	return err
}

var errNothingToDecide = errors.New("nothing to decide")

// Recover begins a generation of a database that was set back, on the decision of an operator, in
// one transaction with do, which may be nil. It writes to out what the database lacks. further are
// marks that are given up, besides those that the service has found. See Recovery.Run for the error
// if the database is not set back.
func (r *Runtime) Recover(ctx context.Context, decision Recovery, out io.Writer, do setback.Decision,
	further ...string) error {
	store := setback.Store{DB: r.DB}
	claims, err := store.Claims(ctx)
	if err != nil {
		return err
	}
	if len(claims) == 0 {
		return fmt.Errorf("the database of %s is not set back: %w. A service compares it with what others have seen when "+
			"it runs", r.name, errNothingToDecide)
	}
	if err := store.Begin(ctx, r.Now(), decision.Operator, do, further...); err != nil {
		return fmt.Errorf("nothing was decided, run it again: %w", err)
	}
	verb := "accepted that %s lacks %s: a generation begins\n"
	if decision.Current {
		verb = "%s is current without %s: a generation begins\n"
	}
	_, err = fmt.Fprintf(out, verb, r.name, strings.Join(claims, ", "))
	return err
}
