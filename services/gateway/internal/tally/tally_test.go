package tally

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

// keeper is authquota: it counts a batch once, by its id. fails says what happens to the next one.
type keeper struct {
	t require.TestingT

	mu    sync.Mutex // a test changes what fails while tallies are told
	fails fault

	calls map[api.UsageCount]int
	seen  map[string]api.UsageBatch
}

type fault int

const (
	healthy fault = iota
	away          // nothing arrives
	deaf          // it is counted, and the answer is lost
	refuses
)

func newKeeper(t require.TestingT) *keeper {
	return &keeper{t: t, calls: map[api.UsageCount]int{}, seen: map[string]api.UsageBatch{}}
}

func (k *keeper) fail(how fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails = how
}

func (k *keeper) take(_ context.Context, b api.UsageBatch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.fails {
	case away:
		return errors.New("no route to host")
	case refuses:
		return fmt.Errorf("authquota: %w", &peer.StatusError{Status: http.StatusBadRequest})
	}
	require.LessOrEqual(k.t, len(b.Counts), api.MaxUsageCounts)
	if before, repeated := k.seen[b.ID]; repeated {
		require.Equal(k.t, before, b, "what is sent again is the same")
	} else {
		for _, t := range b.Counts {
			k.calls[api.UsageCount{Day: t.Day, Key: t.Key, Outcome: t.Outcome}] += t.Calls
		}
		k.seen[b.ID] = b
	}
	if k.fails == deaf {
		return context.DeadlineExceeded
	}
	return nil
}

// Whatever becomes of batches on their way, what authquota has in the end is what was noted, each call once, less what is said to
// be lost.
func TestTalliesSumToCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKeeper(t)
		b := New(k.take, quiet)
		start := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
		noted, total := map[api.UsageCount]int{}, 0
		t.Repeat(map[string]func(*rapid.T){
			"note": func(t *rapid.T) {
				at := start.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "second")) * time.Second)
				of := api.UsageCount{
					Day: at.Format(time.DateOnly), Key: rapid.SampledFrom([]string{"key_a", "key_b"}).Draw(t, "key"),
					Outcome: rapid.SampledFrom(api.CallOutcomes).Draw(t, "outcome"),
				}
				b.Note(of.Key, of.Outcome, at)
				noted[of]++
				total++
			},
			"tell": func(t *rapid.T) {
				k.fail(rapid.SampledFrom([]fault{healthy, away, deaf}).Draw(t, "fails"))
				require.Equal(t, k.fails == healthy || b.Pending() == 0, b.Tell(context.Background()) == nil)
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, b.Pending(), int64(total))
			},
		})
		k.fail(healthy)
		require.NoError(t, b.Tell(context.Background()))
		require.Equal(t, noted, k.calls)
		require.Zero(t, b.Pending())
		require.Zero(t, b.Lost())
	})
}

func TestTheLastCallIsTold(t *testing.T) {
	k := newKeeper(t)
	b := New(k.take, quiet)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, second := range []int{1, 3, 2} { // answers come in any order
		b.Note("key_a", api.CallServed, noon.Add(time.Duration(second)*time.Second))
	}
	require.NoError(t, b.Tell(t.Context()))
	for id, batch := range k.seen {
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7`, id)
		require.Equal(t, []api.UsageCount{{Day: "2026-11-20", Key: "key_a", Outcome: api.CallServed, Calls: 3, LastAt: noon.Add(3 * time.Second)}}, batch.Counts)
	}
	require.Len(t, k.seen, 1)
	require.NoError(t, b.Tell(t.Context()))
	require.Len(t, k.seen, 1, "nothing is told where nothing happened")
}

// A batch that authquota refuses for what it is would hold up all others for ever.
func TestARefusedBatchIsGivenUp(t *testing.T) {
	k, log := newKeeper(t), new(bytes.Buffer)
	b := New(k.take, slog.New(slog.NewTextHandler(log, nil)))
	k.fail(refuses)
	b.Note("key_a", api.CallServed, time.Now())
	require.NoError(t, b.Tell(t.Context()))
	require.EqualValues(t, 1, b.Lost())
	require.Zero(t, b.Pending())
	require.Contains(t, log.String(), "authquota refuses them")
}

// An outage is told of once, and not every second.
func TestOneWarningForAnOutage(t *testing.T) {
	k, log := newKeeper(t), new(bytes.Buffer)
	b := New(k.take, slog.New(slog.NewTextHandler(log, nil)))
	for range 2 {
		b.Note("key_a", api.CallServed, time.Now())
		k.fail(away)
		for range 3 {
			require.Error(t, b.Tell(t.Context()))
		}
		k.fail(healthy)
		require.NoError(t, b.Tell(t.Context()))
	}
	require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("tallies wait")))
}

// However long authquota is away, what is kept has a bound; what is beyond it is counted as lost, and what is known goes on.
func TestMemoryIsBounded(t *testing.T) {
	k := newKeeper(t)
	b := New(k.take, quiet)
	now := time.Now()
	for i := range maxKept + 10 {
		b.Note(fmt.Sprintf("key_%d", i), api.CallServed, now)
	}
	b.Note("key_0", api.CallServed, now)
	require.EqualValues(t, 10, b.Lost())
	require.EqualValues(t, maxKept+1, b.Pending())
	require.NoError(t, b.Tell(t.Context()))
	require.Len(t, k.seen, maxKept/api.MaxUsageCounts)
	require.Len(t, k.calls, maxKept)
	require.Zero(t, b.Pending())
}

func TestRunAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t)
		b := New(k.take, quiet)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = b.Run(ctx) })
		b.Note("key_a", api.CallServed, time.Now())
		time.Sleep(every)
		synctest.Wait()
		require.Zero(t, b.Pending(), "told within a second")
		stop()
		all.Wait()

		b.Note("key_a", api.CallServed, time.Now())
		k.fail(away)
		last, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all.Go(func() { b.Close(last) })
		time.Sleep(time.Second / 2)
		synctest.Wait()
		require.EqualValues(t, 1, b.Pending(), "it is tried as long as there is time")
		k.fail(healthy)
		all.Wait()
		require.Zero(t, b.Lost())
		require.Len(t, k.seen, 2)

		b.Note("key_a", api.CallServed, time.Now())
		k.fail(away)
		b.Close(last)
		require.EqualValues(t, 1, b.Lost())
	})
}

func TestNotesAtOnce(t *testing.T) {
	k := newKeeper(t)
	b := New(k.take, quiet)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 1000 {
				b.Note("key_a", api.CallServed, time.Now())
			}
		})
	}
	for range 100 {
		require.NoError(t, b.Tell(t.Context()))
	}
	callers.Wait()
	require.NoError(t, b.Tell(t.Context()))
	sum := 0
	for _, calls := range k.calls {
		sum += calls
	}
	require.Equal(t, 8000, sum)
}

func BenchmarkNote(b *testing.B) {
	book := New(func(context.Context, api.UsageBatch) error { return nil }, quiet)
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			book.Note("key_0192f0c1d2e3f4a5b6c7d8e9", api.CallServed, now)
		}
	})
}
