package load

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Steady is a steady stream of calls, half of them over reused connections. It counts the outcomes; any response but 200 is a failure.
type Steady struct {
	URL     string // of the server, http only
	Rate    int    // calls per second
	Targets []Named
	Keys    []string // used in turn
}

// Named is a path with its query, and a name for the counts.
type Named struct{ Name, Path string }

// poolSize is the number of reused connections. Calls use them in turn, so they reach all replicas.
const poolSize = 32

// Run makes calls until ctx is done, then waits for all responses. A slow call does not delay the next one, so the rate is the same when
// the service is slow.
func (l Steady) Run(ctx context.Context) (*Summary, error) {
	address, err := address(l.URL)
	if err != nil {
		return nil, err
	}
	p := pool{address: address, idle: make(chan *conn, poolSize)}
	sum := newSummary()
	tick := time.NewTicker(time.Second / time.Duration(l.Rate))
	defer tick.Stop()
	var all sync.WaitGroup
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			all.Wait()
			sum.end = time.Now()
			return sum, nil
		case <-tick.C:
		}
		// After each round of the targets keep changes, so that each target is called in both ways.
		to, keep := l.Targets[i%len(l.Targets)], i/len(l.Targets)%2 == 0
		key := l.Keys[i%len(l.Keys)]
		all.Go(func() {
			began := time.Now()
			status, err := p.call(to.Path, key, keep)
			sum.count(to.Name, keep, status, err, began, time.Now())
		})
	}
}

func address(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" || u.Host == "":
		return "", fmt.Errorf("invalid --url %q: use the http URL of a gateway", base)
	case u.Port() == "":
		return u.Host + ":80", nil
	}
	return u.Host, nil
}

// pool has the connections that are reused.
type pool struct {
	address string
	idle    chan *conn // longest idle first
}

// call makes one call, over an idle or a new connection. The status is 0 if the response is missing or incomplete.
func (p *pool) call(path, key string, keep bool) (status int, err error) {
	var c *conn
	header := []string{"Connection: close"}
	if keep {
		c, header = p.get(), nil
	}
	if c == nil {
		if c, err = dial(p.address); err != nil {
			return 0, err
		}
	}
	status, _, reusable, err := c.call(request(p.address, path, key, header...))
	if keep && reusable && err == nil {
		select {
		case p.idle <- c:
			return status, nil
		default:
		}
	}
	_ = c.Close()
	return status, err
}

// get returns an open idle connection, or nil. It returns nil until the pool is full, so that several connections are opened from the
// start.
func (p *pool) get() *conn {
	for len(p.idle) == poolSize {
		c := <-p.idle
		if c.open() {
			return c
		}
		_ = c.Close()
	}
	return nil
}
