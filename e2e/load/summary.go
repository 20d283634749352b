package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Summary counts the outcomes of calls.
type Summary struct {
	start, end time.Time

	mu          sync.Mutex
	calls       int
	reused      [2]count // over new connections, over reused ones
	outcomes    map[string]int
	took        []time.Duration // of successful calls
	first, last time.Time       // start of the first and the last failed call
}

type count struct{ sent, failed int }

func newSummary() *Summary { return &Summary{start: time.Now(), outcomes: map[string]int{}} }

func (s *Summary) count(name string, keep bool, status int, err error, began, ended time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	way := &s.reused[0]
	if keep {
		way = &s.reused[1]
	}
	s.calls++
	way.sent++
	s.outcomes[name+" "+outcome(status, err)]++
	if status == http.StatusOK {
		s.took = append(s.took, ended.Sub(began))
		return
	}
	way.failed++
	if s.first.IsZero() || began.Before(s.first) {
		s.first = began
	}
	if began.After(s.last) {
		s.last = began
	}
}

// outcome describes the outcome of a call without addresses and ports, so that equal outcomes can be counted.
func outcome(status int, err error) string {
	var network *net.OpError
	switch {
	case err == nil:
		return fmt.Sprint(status)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed before the response"
	case errors.As(err, &network):
		return network.Op + ": " + network.Err.Error()
	default:
		return err.Error()
	}
}

// Failed returns the number of calls without a response with status 200.
func (s *Summary) Failed() int { return s.reused[0].failed + s.reused[1].failed }

// Print writes the counts, the latencies and the time of the failures.
func (s *Summary) Print(w io.Writer) {
	long := s.end.Sub(s.start)
	fmt.Fprintf(w, "sent %d, failed %d in %.0f s\n", s.calls, s.Failed(), long.Seconds())
	fmt.Fprintf(w, "  over reused connections: sent %d, failed %d; over a new one each: sent %d, failed %d\n",
		s.reused[1].sent, s.reused[1].failed, s.reused[0].sent, s.reused[0].failed)
	for _, o := range slices.Sorted(maps.Keys(s.outcomes)) {
		fmt.Fprintf(w, "  %6d  %s\n", s.outcomes[o], o)
	}
	if len(s.took) > 0 {
		slices.Sort(s.took)
		at := func(share float64) time.Duration {
			return s.took[int(share*float64(len(s.took)-1))].Round(100 * time.Microsecond)
		}
		fmt.Fprintf(w, "  latency: %v (p50), %v (p99), %v (max)\n", at(0.5), at(0.99), at(1))
	}
	if s.Failed() > 0 {
		fmt.Fprintf(w, "  failures from %.1f s to %.1f s, none in the last %.1f s\n",
			s.first.Sub(s.start).Seconds(), s.last.Sub(s.start).Seconds(), s.end.Sub(s.last).Seconds())
	}
}
