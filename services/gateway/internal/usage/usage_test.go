package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

var quiet = slog.New(slog.DiscardHandler)

// fakeAuthquota counts each batch once, by its id. fault applies to the next batch.
type fakeAuthquota struct {
	t require.TestingT

	mu    sync.Mutex // tests change fault during a flush
	fault fault

	calls  map[api.UsageCount]int
	logged []api.LoggedRequest
	seen   map[string]api.UsageBatch
}

type fault int

const (
	healthy     fault = iota
	unavailable       // the batch does not arrive
	replyLost         // the batch is counted and the reply is lost
	rejecting
)

func newFake(t require.TestingT) *fakeAuthquota {
	return &fakeAuthquota{t: t, calls: map[api.UsageCount]int{}, seen: map[string]api.UsageBatch{}}
}

func (fake *fakeAuthquota) fail(f fault) {
	fake.mu.Lock()
	defer fake.mu.Unlock()
	fake.fault = f
}

func (fake *fakeAuthquota) accept(_ context.Context, b api.UsageBatch) error {
	fake.mu.Lock()
	defer fake.mu.Unlock()
	switch fake.fault {
	case unavailable:
		return errors.New("no route to host")
	case rejecting:
		return fmt.Errorf("authquota: %w", &peer.StatusError{Status: http.StatusBadRequest})
	}
	require.LessOrEqual(fake.t, len(b.Counts), api.MaxUsageCounts)
	require.LessOrEqual(fake.t, len(b.Requests), api.MaxUsageRequests)
	if before, repeated := fake.seen[b.ID]; repeated {
		require.Equal(fake.t, before, b, "batch changed between retries")
	} else {
		for _, t := range b.Counts {
			fake.calls[api.UsageCount{Day: t.Day, Key: t.Key, Outcome: t.Outcome}] += t.Calls
		}
		fake.logged = append(fake.logged, b.Requests...)
		fake.seen[b.ID] = b
	}
	if fake.fault == replyLost {
		return context.DeadlineExceeded
	}
	return nil
}

// Failed sends and lost replies neither lose nor duplicate a call.
func TestBatchesSumToRecordedCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fake := newFake(t)
		b := New(fake.accept, quiet)
		start := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
		recorded, total := map[api.UsageCount]int{}, 0
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				at := start.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "second")) * time.Second)
				of := api.UsageCount{
					Day: at.Format(time.DateOnly), Key: rapid.SampledFrom([]string{"key_a", "key_b"}).Draw(t, "key"),
					Outcome: rapid.SampledFrom(api.CallOutcomes).Draw(t, "outcome"),
				}
				b.Record(api.LoggedRequest{Key: of.Key}, of.Outcome, at)
				recorded[of]++
				total++
			},
			"flush": func(t *rapid.T) {
				fake.fail(rapid.SampledFrom([]fault{healthy, unavailable, replyLost}).Draw(t, "fault"))
				require.Equal(t, fake.fault == healthy || b.Pending() == 0, b.Flush(context.Background()) == nil)
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, b.Pending(), int64(total))
			},
		})
		fake.fail(healthy)
		require.NoError(t, b.Flush(context.Background()))
		require.Equal(t, recorded, fake.calls)
		require.Zero(t, b.Pending())
		require.Zero(t, b.Lost())
	})
}

func TestCountersKeepLastCall(t *testing.T) {
	fake := newFake(t)
	b := New(fake.accept, quiet)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, second := range []int{1, 3, 2} { // out of order
		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, noon.Add(time.Duration(second)*time.Second))
	}
	require.NoError(t, b.Flush(t.Context()))
	for id, batch := range fake.seen {
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7`, id)
		require.Equal(t, []api.UsageCount{{Day: "2026-11-20", Key: "key_a", Outcome: api.CallServed, Calls: 3,
			LastAt: noon.Add(3 * time.Second)}}, batch.Counts)
	}
	require.Len(t, fake.seen, 1)
	require.NoError(t, b.Flush(t.Context()))
	require.Len(t, fake.seen, 1, "batches after a flush without calls")
}

// Retrying a rejected batch would block all later ones forever.
func TestRejectedBatchIsDropped(t *testing.T) {
	fake, log := newFake(t), new(bytes.Buffer)
	b := New(fake.accept, slog.New(slog.NewTextHandler(log, nil)))
	fake.fail(rejecting)
	b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
	require.NoError(t, b.Flush(t.Context()))
	require.EqualValues(t, 1, b.Lost())
	require.Zero(t, b.Pending())
	require.Contains(t, log.String(), "usage batch dropped: rejected by authquota")
}

func TestOneWarningPerOutage(t *testing.T) {
	fake, log := newFake(t), new(bytes.Buffer)
	b := New(fake.accept, slog.New(slog.NewTextHandler(log, nil)))
	for range 2 {
		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
		fake.fail(unavailable)
		for range 3 {
			require.Error(t, b.Flush(t.Context()))
		}
		fake.fail(healthy)
		require.NoError(t, b.Flush(t.Context()))
	}
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("usage batch failed")))
}

// The buffer is bounded during an outage. Calls beyond the bound are lost, except those of a
// counter that is buffered already.
func TestMemoryIsBounded(t *testing.T) {
	fake := newFake(t)
	b := New(fake.accept, quiet)
	now := time.Now()
	for i := range maxCounts + 10 {
		b.Record(api.LoggedRequest{Key: fmt.Sprintf("key_%d", i)}, api.CallServed, now)
	}
	b.Record(api.LoggedRequest{Key: "key_0"}, api.CallServed, now)
	require.EqualValues(t, 10, b.Lost())
	require.EqualValues(t, maxCounts+1, b.Pending())
	require.NoError(t, b.Flush(t.Context()))
	require.Len(t, fake.seen, maxCounts/api.MaxUsageCounts)
	require.Len(t, fake.calls, maxCounts)
	require.Zero(t, b.Pending())
}

func TestRunAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake(t)
		b := New(fake.accept, quiet)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = b.Run(ctx) })
		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
		time.Sleep(flushInterval)
		synctest.Wait()
		require.Zero(t, b.Pending(), "pending after a second")
		stop()
		all.Wait()

		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
		fake.fail(unavailable)
		last, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all.Go(func() { b.Close(last) })
		time.Sleep(time.Second / 2)
		synctest.Wait()
		require.EqualValues(t, 1, b.Pending(), "pending while Close retries")
		fake.fail(healthy)
		all.Wait()
		require.Zero(t, b.Lost())
		require.Len(t, fake.seen, 2)

		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
		fake.fail(unavailable)
		b.Close(last)
		require.EqualValues(t, 1, b.Lost())
	})
}

// Otherwise a busy gateway would send a batch of a few calls after each reply.
func TestCallsDuringAFlushWaitForTheNext(t *testing.T) {
	var b *Recorder
	batches := 0
	b = New(func(context.Context, api.UsageBatch) error {
		batches++
		b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
		return nil
	}, quiet)
	b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
	for flush := range 3 {
		require.NoError(t, b.Flush(t.Context()))
		require.Equal(t, flush+1, batches)
		require.EqualValues(t, 1, b.Pending())
	}
}

func TestConcurrentRecords(t *testing.T) {
	fake := newFake(t)
	b := New(fake.accept, quiet)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 1000 {
				b.Record(api.LoggedRequest{Key: "key_a"}, api.CallServed, time.Now())
			}
		})
	}
	for range 100 {
		require.NoError(t, b.Flush(t.Context()))
	}
	callers.Wait()
	require.NoError(t, b.Flush(t.Context()))
	sum := 0
	for _, calls := range fake.calls {
		sum += calls
	}
	require.Equal(t, 8000, sum)
}

func TestLogSendsOnlyListedParameters(t *testing.T) {
	fake := newFake(t)
	b := New(fake.accept, quiet)
	b.Record(api.LoggedRequest{ID: "1", Key: "key_a", Params: "remote=true&q=private"}, api.CallServed, time.Now())
	b.Record(api.LoggedRequest{ID: "2", Key: "key_a", Params: "remote=true&x=" + strings.Repeat("x", api.MaxLoggedQuery)},
		api.CallServed, time.Now())
	require.NoError(t, b.Flush(t.Context()))
	require.Equal(t, []api.LoggedRequest{{ID: "1", Key: "key_a", Params: "remote=true"}, {ID: "2", Key: "key_a"}},
		fake.logged)
}

// During an outage, a busy key fills its own share of the buffer only.
func TestLogIsBounded(t *testing.T) {
	fake := newFake(t)
	b := New(fake.accept, quiet)
	for range api.RequestLogSize + 5 {
		b.Record(api.LoggedRequest{Key: "key_busy"}, api.CallServed, time.Now())
	}
	require.EqualValues(t, 5, b.Unlogged())
	for i := range maxRequests {
		b.Record(api.LoggedRequest{Key: fmt.Sprintf("key_%d", i)}, api.CallServed, time.Now())
	}
	require.EqualValues(t, 5+api.RequestLogSize, b.Unlogged())
	require.Zero(t, b.Lost())
	require.NoError(t, b.Flush(t.Context()))
	require.Len(t, fake.logged, maxRequests)
	require.Len(t, fake.seen, maxRequests/api.MaxUsageRequests)
	require.Zero(t, b.Pending())
	require.Empty(t, b.perKey)
	b.Record(api.LoggedRequest{Key: "key_busy"}, api.CallServed, time.Now())
	require.EqualValues(t, 5+api.RequestLogSize, b.Unlogged())
}

// A gateway with 10,000 calls per second would lose requests of the log if they waited for the next
// tick.
func TestFullLogIsSentEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(newFake(t).accept, quiet)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = b.Run(ctx) })
		for i := range maxRequests / 2 {
			b.Record(api.LoggedRequest{Key: fmt.Sprintf("key_%d", i)}, api.CallServed, time.Now())
		}
		synctest.Wait()
		require.Zero(t, b.Pending())
		stop()
		run.Wait()
	})
}
