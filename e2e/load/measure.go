// Package load makes HTTP/1.1 calls to a server and measures them: Saturate and At for benchmarks, Steady to count what fails during an
// outage. It never retries a call.
package load

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Target names the calls of a run.
type Target struct {
	Address string   // host and port
	Paths   []string // called in turn
	Keys    []string // API keys, used in turn
	Header  []string // such as "Accept-Encoding: gzip"
	Status  int      // the expected status
}

// requests returns the requests by path and key.
func (t Target) requests() [][][]byte {
	var all [][][]byte
	for _, path := range t.Paths {
		var byKey [][]byte
		for _, key := range t.Keys {
			byKey = append(byKey, request(t.Address, path, key, t.Header...))
		}
		all = append(all, byKey)
	}
	return all
}

// Result is the outcome of a run.
type Result struct {
	Calls     int // with the expected status
	Failed    int // with another status
	Elapsed   time.Duration
	Bytes     int64           // of bodies, as sent
	Latencies []time.Duration // sorted
}

// Rate returns the calls per second.
func (r Result) Rate() float64 { return float64(r.Calls) / r.Elapsed.Seconds() }

// Quantile returns the latency that the share q of the calls did not exceed.
func (r Result) Quantile(q float64) time.Duration {
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Connections is the number of connections of Saturate, and so of concurrent calls.
const Connections = 16

// Saturate makes calls as fast as the target responds: each connection makes its next call after the response to the one before.
func Saturate(t Target, calls int) (Result, error) {
	var next atomic.Int64
	return run(t, Connections, func(time.Time) (int, time.Time, bool) {
		i := int(next.Add(1)) - 1
		return i, time.Now(), i < calls
	})
}

// waiting is the number of connections of At. More calls than that wait for a connection.
const waiting = 64

// At makes calls at a steady rate per second, whether or not the target keeps up. The latency of a call that had to wait for a free
// connection starts when the call was due.
func At(t Target, rate float64, length time.Duration) (Result, error) {
	gap := time.Duration(float64(time.Second) / rate)
	calls := int(length / gap)
	var next atomic.Int64
	return run(t, waiting, func(start time.Time) (int, time.Time, bool) {
		i := int(next.Add(1)) - 1
		due := start.Add(time.Duration(i) * gap)
		if wait := time.Until(due); wait > 0 && i < calls {
			time.Sleep(wait)
			due = time.Now() // the timer's delay is not the target's
		}
		return i, due, i < calls
	})
}

// schedule returns the number of the next call and the time from which its latency counts, and false after the last call. It blocks until the
// call is due.
type schedule func(start time.Time) (call int, from time.Time, more bool)

// run makes calls over a number of connections. It returns an error if one in a hundred calls or more has an unexpected status.
func run(t Target, connections int, next schedule) (Result, error) {
	open := make([]*conn, connections)
	for i := range open {
		c, err := dial(t.Address)
		if err != nil {
			return Result{}, err
		}
		defer c.Close()
		open[i] = c
	}
	parts, errs := make([]Result, connections), make([]error, connections)
	requests := t.requests()
	var all sync.WaitGroup
	start := time.Now()
	for i, c := range open {
		all.Go(func() { parts[i], errs[i] = c.run(t, requests, start, next) })
	}
	all.Wait()
	total := Result{Elapsed: time.Since(start)}
	for _, part := range parts {
		total.Calls += part.Calls
		total.Failed += part.Failed
		total.Bytes += part.Bytes
		total.Latencies = append(total.Latencies, part.Latencies...)
	}
	slices.Sort(total.Latencies)
	err := errors.Join(errs...)
	if err == nil && total.Failed*100 >= total.Calls { // a busy machine makes a few fail
		err = fmt.Errorf("%d calls to %s had status %d, and %d had another", total.Calls, t.Address, t.Status, total.Failed)
	}
	return total, err
}

// run makes calls over one connection.
func (c *conn) run(t Target, requests [][][]byte, start time.Time, next schedule) (part Result, err error) {
	for {
		i, from, more := next(start)
		if !more {
			return part, nil
		}
		status, n, _, err := c.call(requests[i%len(t.Paths)][i%len(t.Keys)])
		if err != nil {
			return part, fmt.Errorf("GET %s%s: %w", t.Address, t.Paths[i%len(t.Paths)], err)
		}
		if status != t.Status {
			part.Failed++
			continue
		}
		part.Calls++
		part.Bytes += n
		part.Latencies = append(part.Latencies, time.Since(from))
	}
}
