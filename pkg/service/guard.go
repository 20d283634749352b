package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/problem"
)

const (
	refreshInterval  = time.Second      // between reads of the decisions, which any process may make
	exchangeInterval = 10 * time.Second // between exchanges with the keepers
	exchangeTimeout  = 5 * time.Second
)

var errNotCompared = errors.New("database not compared with the marks that others keep yet")

// Guard adds a guard of the database to the service. It exchanges marks with the keepers, at the start and every ten seconds: a service that is
// not ready gets no requests with marks. The service is not ready before the first exchange has ended, which an outage of a keeper does, too.
func (r *Runtime) Guard(owner highwater.Owner, keepers ...highwater.Keeper) *highwater.Guard {
	g := highwater.New(owner, r.DB, r.Now, r.Log, r.Registry)
	var compared atomic.Bool
	r.Ready.Add(api.SetBackCondition, func(context.Context) error { return g.Err() })
	r.Ready.Add("comparison", func(context.Context) error {
		if !compared.Load() {
			return errNotCompared
		}
		return nil
	})
	r.Every(Loop{Name: "set back", Interval: refreshInterval, Timeout: exchangeTimeout, Do: g.Refresh})
	r.Every(Loop{Name: "exchange of marks", Interval: exchangeInterval, Timeout: exchangeTimeout, Do: func(ctx context.Context) error {
		defer compared.Store(true)
		_, err := g.Check(ctx)
		errs := []error{UnlessReported(err)}
		for _, k := range keepers {
			errs = append(errs, UnlessReported(g.Exchange(ctx, k)))
		}
		return errors.Join(errs...)
	}})
	return g
}

// UnlessReported returns nil for an error that is logged elsewhere: the database is set back, or a peer is unavailable, which the requests to it
// report.
func UnlessReported(err error) error {
	if e := new(problem.Error); errors.Is(err, highwater.ErrSetBack) || errors.As(err, &e) && e.Code == problem.ServiceUnavailable {
		return nil
	}
	return err
}

// NotSetBack returns ErrSetBack if a process of the service has found the database set back. It is for verbs, which have no guard.
func (r *Runtime) NotSetBack(ctx context.Context) error {
	all, err := highwater.Losses(r.DB.WithContext(ctx))
	if err == nil && slices.ContainsFunc(all, highwater.Loss.Open) {
		err = highwater.ErrSetBack
	}
	return err
}

// Accept accepts that the database lacks what another service has seen of it, and writes to out what it accepted. The consumers of the
// service's feed then copy everything again.
func (d Definition[C]) Accept(ctx context.Context, cfg C, operator string, out io.Writer) error {
	return d.Do(ctx, cfg, func(r *Runtime) error {
		accepted, err := highwater.Accept(r.DB.WithContext(ctx), r.Now(), operator)
		if err != nil {
			return err
		}
		if len(accepted) == 0 {
			return fmt.Errorf("the database of %s is not set back: nothing to accept. A service compares it with what others have seen when it runs", d.Name)
		}
		_, err = fmt.Fprintf(out, "accepted that %s lacks %s: generation %d begins\n", d.Name, highwater.Describe(accepted), accepted[0].Generation)
		return err
	})
}
