package service_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service"
)

// runLoop runs a loop for a time of its fake clock. It returns the times of the runs since the
// start, and the log.
func runLoop(t *testing.T, duration time.Duration, newLoop func() service.Loop) (runs []time.Duration, log string) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLoop() // inside the bubble of the fake clock
		do := l.Do
		l.Do = func(ctx context.Context) error {
			runs = append(runs, time.Since(start))
			return do(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), duration)
		defer cancel()
		l.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)))
	})
	return runs, out.String()
}

func TestLoopLogsFirstFailureAndRecovery(t *testing.T) {
	results := []error{nil, errors.New("no store"), errors.New("still no store"), nil, nil}
	next := 0
	runs, log := runLoop(t, 4*time.Minute+time.Second, func() service.Loop {
		return service.Loop{Name: "copy", Interval: time.Minute, Do: func(context.Context) error {
			next++
			return results[next-1]
		}}
	})
	require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}, runs)
	require.Equal(t, 2, strings.Count(log, "\n"), log)
	require.Contains(t, log, `level=ERROR msg="background loop failing" loop=copy error="no store"`)
	require.Contains(t, log, `level=INFO msg="background loop recovered" loop=copy`)
}

func TestLoopRetriesSoonerAndEndsSlowRuns(t *testing.T) {
	runs, log := runLoop(t, 12*time.Second, func() service.Loop {
		return service.Loop{
			Name: "copy", Interval: time.Minute, Retry: time.Second, Timeout: 4 * time.Second,
			Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}
	})
	require.Equal(t, []time.Duration{0, 5 * time.Second, 10 * time.Second}, runs)
	require.Equal(t, 1, strings.Count(log, "\n"), "the end of the service is no failure: %s", log)
}

func TestLoopRunsWhenWoken(t *testing.T) {
	runs, _ := runLoop(t, 25*time.Second, func() service.Loop {
		wake := make(chan struct{})
		return service.Loop{Name: "copy", Interval: time.Minute, Wake: wake, Do: func(ctx context.Context) error {
			time.AfterFunc(10*time.Second, func() {
				select {
				case wake <- struct{}{}:
				case <-ctx.Done():
				}
			})
			return nil
		}}
	})
	require.Equal(t, []time.Duration{0, 10 * time.Second, 20 * time.Second}, runs)
}
