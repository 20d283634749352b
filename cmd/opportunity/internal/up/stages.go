package up

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// service is one of the services, ready to be run.
type service struct {
	name string
	run  func(context.Context) error
}

// stages are services in the order in which they start. They end in the opposite order, one stage after the other, each when
// the one before has drained: a request that was admitted finds all it needs, and the ledger writes last.
type stages [][]service

// run runs all services until ctx ends or one of them does. opened, if not nil, is called beside them; its failure is a
// failure of all.
func (s stages) run(ctx context.Context, opened func(context.Context) error) error {
	over, end := context.WithCancel(ctx)
	defer end()
	var mu sync.Mutex
	var failure error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failure = errors.Join(failure, err)
		end()
	}

	stops := make([]func(), len(s))
	for i, stage := range s {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		var all sync.WaitGroup
		for _, svc := range stage {
			all.Go(func() {
				if err := svc.run(running); err != nil {
					fail(fmt.Errorf("%s: %w", svc.name, err))
				}
				end()
			})
		}
		stops[i] = func() { stop(); all.Wait() }
	}
	if err := opened(over); err != nil && over.Err() == nil {
		fail(err)
	}
	<-over.Done()
	for i := range stops {
		stops[len(stops)-1-i]()
	}
	return failure
}
