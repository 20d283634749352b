package usage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

// sent is a fake authquota that accepts the request log unless err is set.
type sent struct {
	batches []api.RequestLogBatch
	err     error
}

func (s *sent) accept(_ context.Context, b api.RequestLogBatch) error {
	s.batches = append(s.batches, b)
	return s.err
}

func TestLogSendsOnlyListedParameters(t *testing.T) {
	fake := new(sent)
	l := NewLog(fake.accept, quiet)
	l.Record(api.LoggedRequest{ID: "1", Key: "key_a", Params: "remote=true&q=private"})
	l.Record(api.LoggedRequest{ID: "2", Key: "key_a", Params: "remote=true&x=" + strings.Repeat("x", api.MaxLoggedQuery)})
	require.NoError(t, l.Flush(t.Context()))
	require.Equal(t, []api.RequestLogBatch{{Requests: []api.LoggedRequest{{ID: "1", Key: "key_a", Params: "remote=true"}, {ID: "2", Key: "key_a"}}}}, fake.batches)
	require.Zero(t, l.Pending())
	require.NoError(t, l.Flush(t.Context()))
	require.Len(t, fake.batches, 1, "batches after a flush without requests")
}

// The same batch is sent again, so that authquota recognizes its requests.
func TestUnconfirmedLogBatchIsRepeated(t *testing.T) {
	fake := &sent{err: errors.New("no route to host")}
	l := NewLog(fake.accept, quiet)
	l.Record(api.LoggedRequest{ID: "1", Key: "key_a"})
	require.Error(t, l.Flush(t.Context()))
	l.Record(api.LoggedRequest{ID: "2", Key: "key_a"})
	fake.err = nil
	require.NoError(t, l.Flush(t.Context()))
	require.Len(t, fake.batches, 3)
	require.Equal(t, fake.batches[0], fake.batches[1])
	require.Equal(t, "2", fake.batches[2].Requests[0].ID)
}

// During an outage, a busy key fills its own share of the buffer only.
func TestLogIsBounded(t *testing.T) {
	fake := new(sent)
	l := NewLog(fake.accept, quiet)
	for range api.RequestLogSize + 5 {
		l.Record(api.LoggedRequest{Key: "key_busy"})
	}
	require.EqualValues(t, 5, l.Lost())
	for i := range maxLogged {
		l.Record(api.LoggedRequest{Key: fmt.Sprintf("key_%d", i)})
	}
	require.EqualValues(t, maxLogged, l.Pending())
	require.EqualValues(t, 5+api.RequestLogSize, l.Lost())
	require.NoError(t, l.Flush(t.Context()))
	require.Len(t, fake.batches, maxLogged/api.MaxLogBatch)
	require.Zero(t, l.Pending())
	require.Empty(t, l.perKey)
	l.Record(api.LoggedRequest{Key: "key_busy"})
	require.EqualValues(t, 1, l.Pending())
}

// A gateway with 10,000 calls per second would lose requests if they waited for the next tick.
func TestFullLogIsSentEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := new(sent)
		l := NewLog(fake.accept, quiet)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = l.Run(ctx) })
		for i := range maxLogged / 2 {
			l.Record(api.LoggedRequest{Key: fmt.Sprintf("key_%d", i)})
		}
		synctest.Wait()
		require.Zero(t, l.Pending())
		stop()
		run.Wait()
	})
}
