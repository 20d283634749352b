package database

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"opportunity.internal/pkg/problem"
)

const (
	queryTimeout = 900 * time.Millisecond // of a query
	tripAfter    = 3                      // queries in a row without a response
	probeAfter   = 200 * time.Millisecond
	// of a probe: one that began before the database responds again delays the recovery by this
	// much
	probeTimeout = 500 * time.Millisecond
)

// Breaker limits what requests of consumers and people wait for a database that accepts connections
// but does not respond. It runs queries, each for at most 0.9 seconds. After three in a row without
// a response it runs one query at a time, as a probe of at most half a second, 0.2 seconds after
// the one before, and fails the others at once until the database responds again. So queries
// succeed at most 0.7 seconds after that. Queries of operators that may take longer do not belong
// here.
type Breaker struct {
	*gobreaker.CircuitBreaker[struct{}]

	limit time.Duration
}

var errNoResponse = errors.New("database does not respond")

// NewBreaker returns a breaker with another limit of a query, for tests on a busy machine. 0 is the
// default.
func NewBreaker(limit time.Duration) *Breaker {
	return &Breaker{limit: cmp.Or(limit, queryTimeout), CircuitBreaker: gobreaker.NewCircuitBreaker[struct{}](
		gobreaker.Settings{
			Timeout:      probeAfter,
			ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
			IsSuccessful: func(err error) bool { return !errors.Is(err, errNoResponse) },   // others return soon enough
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) }, // the client disconnected
		})}
}

// Run calls query. It returns problem.Unavailable if query does not return in time or is not
// called, or if its error is an outage, otherwise the error of query.
func (b *Breaker) Run(ctx context.Context, query func(context.Context) error) error {
	_, err := b.Execute(func() (struct{}, error) {
		limit := b.limit
		if b.State() == gobreaker.StateHalfOpen {
			limit = min(limit, probeTimeout)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := query(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = problem.Unavailable(errors.Join(errNoResponse, err))
		}
		return struct{}{}, Outage(err)
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return problem.Unavailable(err)
	}
	return err
}
