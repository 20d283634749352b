package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"opportunity.internal/pkg/problem"
)

const (
	// queryTimeout limits the query of a public page. The service responds with 503 when it expires.
	queryTimeout = 900 * time.Millisecond

	// While the database does not respond, public pages get 503 without a query; one query probes it twice a second.
	tripAfter  = 3 // queries in a row without a response
	probeAfter = 500 * time.Millisecond
)

// queries runs the queries of public pages. The operators' queries are not among them: they may take longer.
type queries struct {
	breaker *gobreaker.CircuitBreaker[struct{}]
}

func newQueries() *queries {
	return &queries{gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      probeAfter,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return err == nil || problem.Of(err).Code != problem.ServiceUnavailable },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) }, // the client disconnected
	})}
}

// run calls query. It returns problem.Unavailable if query does not return in time or is not called, otherwise the error of query.
func (q *queries) run(ctx context.Context, query func(context.Context) error) error {
	_, err := q.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
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
