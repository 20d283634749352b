package main

import (
	"context"
	"sync"
	"time"
)

// ask is something that is asked for: a name for the counts, and a path with its query.
type ask struct{ name, path string }

// load is a steady stream of calls.
type load struct {
	client *client
	rate   int // calls per second
	asks   []ask
	keys   []string
}

// run sends calls until ctx ends, and waits for the answers of all. A call that takes long does not hold up the next: a service
// that stands still is met by as many calls as one that does not.
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
		// What is asked for and how move on at different paces, so that each is asked for in both ways.
		what, keep := l.asks[i%len(l.asks)], i/len(l.asks)%2 == 0
		key := l.keys[i%len(l.keys)]
		all.Go(func() {
			began := time.Now()
			status, err := l.client.get(what.path, key, keep)
			sum.count(what.name, keep, status, err, began, time.Now())
		})
	}
}
