package usage

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

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
