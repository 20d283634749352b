package up

import (
	"context"
	"errors"
	"fmt"
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
	if len(s) == 0 {
		if err := whenStarted(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	later, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error)
	for _, svc := range s[0] {
		go func() {
			err := svc.run(running)
			end()
			if err != nil {
				err = fmt.Errorf("%s: %w", svc.name, err)
			}
			ended <- err
		}()
	}
	err := s[1:].run(later, whenStarted)
	stop()
	for range s[0] {
		err = errors.Join(err, <-ended)
	}
	return err
}
