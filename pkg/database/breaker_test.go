package database

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/problem"
)

// hanging is a database that may hang.
type hanging struct {
	*testing.T
	breaker *Breaker
	hangs   bool
	err     error
	called  int
}

// query returns the code of the error, and the time that the query took.
func (d *hanging) query(ctx context.Context) (code problem.Code, took time.Duration) {
	began := time.Now()
	err := d.breaker.Run(ctx, func(ctx context.Context) error {
		d.called++
		if d.hangs {
			<-ctx.Done()
			return ctx.Err()
		}
		return d.err
	})
	if err != nil {
		code = problem.Of(err).Code
	}
	return code, time.Since(began)
}

func TestHangingDatabaseIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hanging{T: t, breaker: NewBreaker(0), hangs: true}
		for i := range tripAfter {
			if i == tripAfter-1 { // a client that disconnects says nothing about the database
				d.hangs, d.err = false, context.Canceled
				_, _ = d.query(t.Context())
				d.hangs, d.err, d.called = true, nil, i
			}
			code, took := d.query(t.Context())
			require.Equal(t, problem.ServiceUnavailable, code)
			require.Equal(t, queryTimeout, took)
		}
		for range 100 {
			code, took := d.query(t.Context())
			require.Equal(t, problem.ServiceUnavailable, code)
			require.Zero(t, took)
		}
		require.Equal(t, tripAfter, d.called)

		time.Sleep(probeAfter + time.Nanosecond)
		_, took := d.query(t.Context())
		require.Equal(t, probeTimeout, took, "a probe")
		_, took = d.query(t.Context())
		require.Zero(t, took)

		d.hangs = false
		time.Sleep(probeAfter + time.Nanosecond)
		code, _ := d.query(t.Context())
		require.Empty(t, code, "the probe after the recovery")
		code, _ = d.query(t.Context())
		require.Empty(t, code)
	})
}

func TestQueriesThatFailSoonStopNone(t *testing.T) {
	for name, d := range map[string]*hanging{
		"no such record": {err: problem.New(problem.NotFound, "There is no such record.")},
		"a bug":          {err: errors.New("a bug")},
		"an outage":      {err: problem.Unavailable(errors.New("connection refused"))},
	} {
		d.breaker = NewBreaker(0)
		for range 2 * tripAfter {
			_, _ = d.query(t.Context())
		}
		require.Equal(t, 2*tripAfter, d.called, name)
	}
}
