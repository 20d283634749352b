package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Result counts the outcomes of calls.
type Result struct {
	start, end time.Time
	status     int

	mu             sync.Mutex
	calls          [2]count       // over new connections, over reused ones
	outcomes       map[string]int // by name of the path and status or error
	bytes          int64          // of the bodies of calls that succeeded
	took           []time.Duration
	sorted         bool
	first, lastBad time.Time // the first and the last failed call
}

type count struct{ sent, failed int }

func (r *Result) add(name string, reused bool, status int, bytes int64, err error, due time.Time) {
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	way := &r.calls[0]
	if reused {
		way = &r.calls[1]
	}
	way.sent++
	r.outcomes[name+" "+outcome(status, err)]++
	if status == r.status {
		r.took, r.bytes = append(r.took, took), r.bytes+bytes
		return
	}
	way.failed++
	if r.first.IsZero() || due.Before(r.first) {
		r.first = due
	}
	if due.After(r.lastBad) {
		r.lastBad = due
	}
}

// outcome describes the outcome of a call without addresses and ports, so equal ones are counted.
func outcome(status int, err error) string {
	var network *net.OpError
	switch {
	case err == nil:
		return fmt.Sprint(status)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the response"
	case errors.As(err, &network):
		return network.Op + ": " + network.Err.Error()
	default:
		return err.Error()
	}
}

// Sent returns the number of calls.
func (r *Result) Sent() int { return r.calls[0].sent + r.calls[1].sent }

// Failed returns the number of calls without a response of the expected status.
func (r *Result) Failed() int { return r.calls[0].failed + r.calls[1].failed }

// Elapsed returns the time from the start to the last response.
func (r *Result) Elapsed() time.Duration { return r.end.Sub(r.start) }

// Rate returns the successful calls per second.
func (r *Result) Rate() float64 { return float64(len(r.took)) / r.Elapsed().Seconds() }

// Bytes returns the mean length of the bodies of successful calls.
func (r *Result) Bytes() float64 { return float64(r.bytes) / float64(len(r.took)) }

// Quantile returns the latency that the share q of the successful calls did not exceed, and 0
// without any.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	if !r.sorted {
		slices.Sort(r.took)
		r.sorted = true
	}
	return r.took[min(int(q*float64(len(r.took))), len(r.took)-1)]
}

// Print writes the counts, the latencies and the time of the failures.
func (r *Result) Print(w io.Writer) {
	fmt.Fprintf(w, "sent %d, failed %d in %.0f s\n", r.Sent(), r.Failed(), r.Elapsed().Seconds())
	fmt.Fprintf(w, "  over reused connections: sent %d, failed %d; over a new one each: sent %d, failed %d\n",
		r.calls[1].sent, r.calls[1].failed, r.calls[0].sent, r.calls[0].failed)
	for _, o := range slices.Sorted(maps.Keys(r.outcomes)) {
		fmt.Fprintf(w, "  %6d  %s\n", r.outcomes[o], o)
	}
	at := func(q float64) time.Duration { return r.Quantile(q).Round(100 * time.Microsecond) }
	fmt.Fprintf(w, "  latency: %v (p50), %v (p99), %v (max)\n", at(0.5), at(0.99), at(1))
	if r.Failed() > 0 {
		fmt.Fprintf(w, "  failures from %.1f s to %.1f s, none in the last %.1f s\n",
			r.first.Sub(r.start).Seconds(), r.lastBad.Sub(r.start).Seconds(), r.end.Sub(r.lastBad).Seconds())
	}
}
