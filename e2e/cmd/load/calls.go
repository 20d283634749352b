package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"opportunity.internal/e2e/load"
)

// result counts the outcomes of calls.
type result struct {
	load.Result

	mu              sync.Mutex
	outcomes        map[string]int // by name of the path, kind of connection, and status or error
	first, lastFail time.Duration  // from the start to the first and to the last failed call
}

// makeCalls makes calls at a steady rate until the context ends. No call waits for others. Every
// second round of the paths is over new connections; the others reuse connections in turn, so that
// they reach all replicas.
func makeCalls(ctx context.Context, l load.Load, names []string, rate int) *result {
	r := &result{outcomes: map[string]int{}}
	idle := make(chan *load.Conn, 32) // longest idle first
	for range cap(idle) {
		idle <- &load.Conn{Address: l.Address}
	}
	var all sync.WaitGroup
	start, tick := time.Now(), time.NewTicker(time.Second/time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			all.Wait()
			r.Elapsed = time.Since(start)
			slices.Sort(r.Took)
			return r
		case <-tick.C:
		}
		due, reused := time.Since(start), i/len(names)%2 == 0
		all.Go(func() {
			c, kind := &load.Conn{Address: l.Address}, "new connection"
			if reused {
				kind = "reused connection"
				select {
				case c = <-idle:
				default: // all are busy
				}
			}
			if c.Conn != nil && !isOpen(c.Conn) {
				c.Close()
			}
			status, _, err := c.Call(l.Request(i))
			r.add(names[i%len(names)]+", "+kind, status, err, due, time.Since(start)-due)
			if reused {
				select {
				case idle <- c:
					return
				default: // one that was opened while all were busy
				}
			}
			c.Close()
		})
	}
}

// isOpen reports whether the server has not closed the connection; all clients check this before
// they reuse one.
func isOpen(c net.Conn) bool {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	var peek error
	err = raw.Control(func(fd uintptr) {
		_, _, peek = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && errors.Is(peek, syscall.EAGAIN)
}

func (r *result) add(call string, status int, err error, due, took time.Duration) {
	outcome := fmt.Sprint(status)
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		outcome = network.Err.Error() // without addresses and ports, so that equal ones are counted
	case err != nil:
		outcome = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Sent++
	r.outcomes[call+": "+outcome]++
	if err == nil && status == http.StatusOK {
		r.Took = append(r.Took, took)
		return
	}
	if r.Failed++; r.Failed == 1 {
		r.first = due
	}
	r.first, r.lastFail = min(r.first, due), max(r.lastFail, due)
}

// String returns the counts, the latencies of successful calls, and the time of the failures.
func (r *result) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "sent %d, failed %d in %.0f s\n", r.Sent, r.Failed, r.Elapsed.Seconds())
	for _, o := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(&out, "  %6d  %s\n", r.outcomes[o], o)
	}
	if len(r.Took) > 0 {
		fmt.Fprintf(&out, "  latency: %.1f ms (p50), %.1f ms (p99), %.1f ms (max)\n",
			r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1))
	}
	if r.Failed > 0 {
		fmt.Fprintf(&out, "  failures from %.1f s to %.1f s, none in the last %.1f s\n",
			r.first.Seconds(), r.lastFail.Seconds(), (r.Elapsed - r.lastFail).Seconds())
	}
	return out.String()
}
