package service

import (
	"context"
	"log/slog"
	"time"
)

// Loop is background work that is repeated until the service stops. It logs the first failure of a
// series and the recovery, because a failing loop usually fails on every run.
type Loop struct {
	Name     string
	Interval time.Duration   // between the end of a run and the next run
	Retry    time.Duration   // the interval after a failure; 0: Interval
	Timeout  time.Duration   // limit of one run, so that an unresponsive store does not block later runs; 0: none
	Wake     <-chan struct{} // starts the next run early; may be nil
	Do       func(context.Context) error
}

// Run runs Do immediately, and then at each interval until ctx ends.
func (l Loop) Run(ctx context.Context, log *slog.Logger) {
	for failing := false; ; {
		err := l.once(ctx)
		pause := l.Interval
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			log.ErrorContext(ctx, "background loop failing", "loop", l.Name, "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "background loop recovered", "loop", l.Name)
		}
		if failing = err != nil; failing && l.Retry > 0 {
			pause = l.Retry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-l.Wake:
		}
	}
}

func (l Loop) once(ctx context.Context) error {
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Timeout)
		defer cancel()
	}
	return l.Do(ctx)
}
