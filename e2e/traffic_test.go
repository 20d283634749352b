package e2e

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	limit "golang.org/x/time/rate"

	"opportunity.internal/pkg/api"
)

// sent is one call of the traffic, with the times between which it was answered by the clock of the
// test.
type sent struct {
	kind, account, gateway string

	from, to time.Time
	status   int  // 0 without a response
	limited  bool // the response has the headers of limits
}

// caller makes calls of one kind.
type caller struct {
	kind, path string
	keys       []issued // used in turn; none for pages
}

// traffic calls the gateways in turn at a steady rate. A call never waits for another one.
type traffic struct {
	t       testing.TB
	pick    func() string // returns the address of a gateway
	callers []caller
	client  *http.Client
	stop    context.CancelFunc

	mu      sync.Mutex
	open    sync.WaitGroup
	calls   []sent
	started atomic.Int64 // calls
}

// kinds of calls that every fault is measured with.
const (
	listCall    = "list"
	recordCall  = "record"
	historyCall = "history"
	pageCall    = "page"
)

// generous has limits that no poll of a commercial account reaches, and 20 calls in a minute for
// free ones.
const generous = "OPPORTUNITY_TIERS=commercial=10000/1000000/100,free=20/1000000/10"

// newStackWithReaders returns a stack with the sample and generous limits, and callers.
func newStackWithReaders(t *testing.T, at parts, settings ...string) (*stack, []caller) {
	t.Helper()
	s := newStackOn(t, at, append([]string{generous, "OPPORTUNITY_SERVICE_CAPACITY=10000000"}, settings...)...)
	s.fill(t)
	return s, s.readers(t)
}

// readers returns callers of every kind with keys of their own accounts, which the gateways know.
func (s *stack) readers(t testing.TB) []caller {
	t.Helper()
	keys := []issued{}
	for range 4 {
		keys = append(keys, s.issue(t, api.Commercial))
	}
	s.knows(t, keys...)
	return []caller{
		{listCall, listPath, keys}, {recordCall, recordPath, keys},
		{historyCall, historyPath, keys}, {pageCall, "/account/sign-in", nil},
	}
}

// send starts traffic of rate calls a second, of each caller in turn. It ends with the test or at
// end.
func (s *stack) send(t testing.TB, rate int, callers []caller) *traffic {
	t.Helper()
	return sendTo(t, func() string { return s.gateways[rand.IntN(gateways)] }, rate, callers)
}

// sendTo is send with other gateways.
func sendTo(t testing.TB, pick func() string, rate int, callers []caller) *traffic {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	tr := &traffic{
		t: t, pick: pick, callers: callers, stop: stop,
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	t.Cleanup(tr.client.CloseIdleConnections)
	pace := limit.NewLimiter(limit.Limit(rate), max(1, int(maxLate.Seconds()*float64(rate))))
	tr.open.Go(func() {
		for i := 0; pace.Wait(ctx) == nil; i++ {
			tr.started.Add(1)
			tr.open.Go(func() { tr.call(i) })
		}
	})
	return tr
}

// maxLate is the time by which calls are sent late at most. If the machine delays them longer, the
// rate is lower: a burst of all delayed calls could fail for that reason alone.
const maxLate = 50 * time.Millisecond

func (tr *traffic) call(i int) {
	c := tr.callers[i%len(tr.callers)]
	s := sent{kind: c.kind, gateway: tr.pick()}
	req, err := http.NewRequestWithContext(tr.t.Context(), http.MethodGet, s.gateway+c.path, nil)
	if err != nil {
		panic(err) // the addresses are the test's own
	}
	if len(c.keys) > 0 {
		key := c.keys[i/len(tr.callers)%len(c.keys)]
		s.account = key.Account
		req.Header.Set("Authorization", "Bearer "+key.Key)
	}
	s.from = time.Now()
	if resp, err := tr.client.Do(req); err == nil {
		s.status, s.limited = resp.StatusCode, resp.Header.Get("X-RateLimit-Limit") != ""
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	s.to = time.Now()
	tr.mu.Lock()
	tr.calls = append(tr.calls, s)
	tr.mu.Unlock()
}

func (tr *traffic) next(n int) {
	tr.t.Helper()
	until := tr.started.Load() + int64(n)
	eventually(tr.t, "more calls are sent", func() bool { return tr.started.Load() >= until })
}

// succeeds waits until each kind of call succeeds, and returns the time at which the last kind did.
func (tr *traffic) succeeds() time.Time {
	tr.t.Helper()
	start := time.Now()
	eventually(tr.t, "every kind of call succeeds", func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		good := map[string]bool{}
		for _, c := range tr.calls {
			if c.status == http.StatusOK && c.from.After(start) {
				good[c.kind] = true
			}
		}
		return len(good) == len(tr.callers)
	})
	return time.Now()
}

func (tr *traffic) end() []sent {
	tr.stop()
	tr.open.Wait()
	return tr.calls
}

// episode holds the calls around a fault.
type episode struct {
	begin, end time.Time // of the fault
	back       time.Time // when every kind of call succeeded again
	calls      []sent    // also those before and after
}

// during makes calls while a fault lasts for n of them, and until every kind of call succeeds
// again.
func (s *stack) during(t testing.TB, callers []caller, n int, fail, repair func()) (e episode) {
	t.Helper()
	tr := s.send(t, rate(), callers)
	tr.succeeds()
	e.begin = time.Now()
	fail()
	tr.next(n)
	e.end = time.Now()
	repair()
	e.back = tr.succeeds()
	e.calls = tr.end()
	return e
}

func (e episode) of(kind string) []sent { return between(e.calls, kind, e.begin, e.end) }

// untilBack returns the calls of a kind until every kind succeeded again.
func (e episode) untilBack(kind string) []sent { return between(e.calls, kind, e.begin, e.back) }

// recovery returns the seconds from the repair until every kind of call succeeded.
func (e episode) recovery() float64 { return e.back.Sub(e.end).Seconds() }

func between(calls []sent, kind string, from, to time.Time) (some []sent) {
	for _, c := range calls {
		if c.kind == kind && !c.from.Before(from) && c.from.Before(to) {
			some = append(some, c)
		}
	}
	return some
}

func counts(calls []sent) map[int]int {
	by := map[int]int{}
	for _, c := range calls {
		by[c.status]++
	}
	return by
}

// isLate reports whether a call got the 503 of a gateway that waited 0.2 seconds for Redis on a
// machine with other work, which has no headers of limits. In a campaign none is excused.
func (s sent) isLate() bool {
	return campaign == 0 && s.status == http.StatusServiceUnavailable && !s.limited
}

// requireServed fails the test unless every call of a consumer got 200. Some may be late, as long
// as most calls are served.
func requireServed(t testing.TB, calls []sent, what string) {
	t.Helper()
	late := 0
	for _, c := range calls {
		if c.isLate() {
			late++
			continue
		}
		require.Equal(t, http.StatusOK, c.status, what)
	}
	require.LessOrEqual(t, 2*late, len(calls), "%s: Redis took long for %d of %d calls", what, late, len(calls))
}

// mostIn returns the largest number of calls of an account that were admitted for certain within
// one span: sent after its begin and answered before its end.
func mostIn(calls []sent, span time.Duration) (most int) {
	byAccount := map[string][]sent{}
	for _, c := range calls {
		if c.status == http.StatusOK {
			byAccount[c.account] = append(byAccount[c.account], c)
		}
	}
	for _, calls := range byAccount {
		for _, first := range calls {
			n := 0
			for _, c := range calls {
				if !c.from.Before(first.from) && c.to.Before(first.from.Add(span)) {
					n++
				}
			}
			most = max(most, n)
		}
	}
	return most
}
