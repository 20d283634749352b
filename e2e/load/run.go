package main

import (
	"context"
	"sync"
	"time"
)

// target is a path with its query, and a name for the counts.
type target struct{ name, path string }

// load is a steady stream of calls.
type load struct {
	client  *client
	rate    int // calls per second
	targets []target
	keys    []string
}

// run makes calls until ctx is done, then waits for all responses. A slow call does not delay the next one, so the rate is the same when the
// service is slow.
func (l *load) run(ctx context.Context) *summary {
	sum := newSummary()
	tick := time.NewTicker(time.Second / time.Duration(l.rate))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			all.Wait()
			sum.end = time.Now()
			return sum
		case <-tick.C:
		}
		// After each round of the targets keep changes, so that each target is called in both ways.
		to, keep := l.targets[i%len(l.targets)], i/len(l.targets)%2 == 0
		key := l.keys[i%len(l.keys)]
		all.Go(func() {
			began := time.Now()
			status, err := l.client.get(to.path, key, keep)
			sum.count(to.name, keep, status, err, began, time.Now())
		})
	}
}
