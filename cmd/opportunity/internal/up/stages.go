package up

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// job is a configured service, or other work that runs until the deployment stops.
type job struct {
	name string
	run  func(context.Context) error
}

// stages are jobs in start order. They stop in reverse order, each stage after the one before
// it has drained. So an admitted request still reaches every service it needs, and authquota
// records usage last.
type stages [][]job

// run runs all services until ctx ends or one of them returns, and then stops the others. It calls
// whenStarted while they run; an error of whenStarted stops them too. run returns the errors of
// whenStarted and of all services.
func (s stages) run(ctx context.Context, whenStarted func(context.Context) error) error {
	groupCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failure error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failure = errors.Join(failure, err)
		cancel()
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
				cancel()
			})
		}
		stops[i] = func() { stop(); all.Wait() }
	}
	if err := whenStarted(groupCtx); err != nil && groupCtx.Err() == nil {
		fail(err)
	}
	<-groupCtx.Done()
	for i := range stops {
		stops[len(stops)-1-i]()
	}
	return failure
}
