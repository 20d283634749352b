package httpapi

import (
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

// breaker limits what requests of consumers and people wait for a database that accepts connections
// but does not respond. It runs queries, each for at most 0.9 seconds. After three in a row without
// a response it runs one query at a time, as a probe of at most half a second, 0.2 seconds after
// the one before, and fails the others at once until the database responds again. So queries
// succeed at most 0.7 seconds after that. Queries of operators do not belong here: they may take
// longer.
type breaker struct {
	*gobreaker.CircuitBreaker[struct{}]
}

func newBreaker() *breaker {
	return &breaker{gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      probeAfter,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return err == nil || problem.Of(err).Code != problem.ServiceUnavailable },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) }, // the client disconnected
	})}
}

// run calls query. It returns problem.Unavailable if query does not return in time or is not
// called, otherwise the error of query. Only errors with that code count as missing responses.
func (b *breaker) run(ctx context.Context, query func(context.Context) error) error {
	_, err := b.Execute(func() (struct{}, error) {
		limit := queryTimeout
		if b.State() == gobreaker.StateHalfOpen {
			limit = probeTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := query(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = problem.Unavailable(err)
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return problem.Unavailable(err)
	}
	return err
}
