package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest/redistest"
)

// owner is the owner of a store, which verifies every mark.
type owner struct {
	*httptest.Server

	mu        sync.Mutex
	status    int
	newest    string
	presented string // by the latest request
}

func newOwner(t *testing.T) *owner {
	o := &owner{status: http.StatusNoContent}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.presented = r.Header.Get(api.SeenMarksHeader)
		if o.status == http.StatusNoContent && o.newest != "" {
			w.Header().Set(api.MarkHeader, o.newest)
		}
		w.WriteHeader(o.status)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *owner) set(status int, newest string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status, o.newest = status, newest
}

// exchanged returns the marks that m presents in an exchange.
func (o *owner) exchanged(t *testing.T, m *marks) []string {
	t.Helper()
	require.NoError(t, m.exchange(t.Context()))
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.FieldsFunc(o.presented, func(r rune) bool { return r == ',' })
}

func newReplica(o *owner, counters *redis.Client, history highwater.Keeper) *marks {
	m := &marks{redis: highwater.Redis{Store: "test", Client: counters}, history: history}
	m.owner = peer.New(o.URL, "t", m.transport(http.DefaultTransport))
	return m
}

// A replica, and one that starts later, present what was seen before the database of the owner was restored, until an operator accepts it.
func TestMarksArePresentedAfterARestore(t *testing.T) {
	o, counters := newOwner(t), redistest.Start(t).Client()
	first := newReplica(o, counters, nil)
	require.Empty(t, o.exchanged(t, first), "no change was made yet")
	o.set(http.StatusNoContent, "7.a")
	require.Empty(t, o.exchanged(t, first))
	require.Equal(t, []string{"7.a"}, o.exchanged(t, first))

	o.set(http.StatusServiceUnavailable, "") // set back
	require.Equal(t, []string{"7.a"}, o.exchanged(t, first))
	require.Equal(t, []string{"7.a"}, o.exchanged(t, newReplica(o, counters, nil)), "Redis has it")
	require.NoError(t, counters.Set(t.Context(), counter.Mark("test"), "5.b", 0).Err()) // set back as well
	require.Equal(t, []string{"7.a", "5.b"}, o.exchanged(t, first))

	o.set(http.StatusNoContent, "6.c") // the loss was accepted
	require.Equal(t, []string{"7.a", "5.b"}, o.exchanged(t, first))
	require.Equal(t, []string{"6.c"}, o.exchanged(t, first))
	require.Equal(t, []string{"6.c"}, o.exchanged(t, newReplica(o, counters, nil)))
	o.set(http.StatusNotFound, "") // an older release
	require.Equal(t, []string{"6.c"}, o.exchanged(t, first))
	o.set(http.StatusInternalServerError, "")
	require.ErrorContains(t, first.exchange(t.Context()), "500")
}

// A value in Redis that cannot be a mark is ignored and overwritten.
func TestOtherValuesInRedisAreNoMarks(t *testing.T) {
	for _, junk := range []string{strings.Repeat("a", 40_000), "7.a\r\nX-Other: b", "7.a,8.b", "\xff", " "} {
		o, counters := newOwner(t), redistest.Start(t).Client()
		require.NoError(t, counters.Set(t.Context(), counter.Mark("test"), junk, 0).Err())
		o.set(http.StatusNoContent, "7.a")
		require.Empty(t, o.exchanged(t, newReplica(o, counters, nil)))
		require.Equal(t, []string{"7.a"}, o.exchanged(t, newReplica(o, counters, nil)), "Redis has it now")
	}
}

// History keeps the mark for the time when no replica runs. Without it, or with one of an older release, a gateway works as before.
func TestHistoryKeepsTheMark(t *testing.T) {
	o, counters := newOwner(t), redistest.Start(t).Client()
	var kept servicetest.Marks
	status := http.StatusServiceUnavailable
	history := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusOK || !kept.Serve(w, r) {
			w.WriteHeader(status)
		}
	}))
	defer history.Close()
	keeper := highwater.Peer{Store: "test", Client: peer.New(history.URL, "t", http.DefaultTransport)}
	first := newReplica(o, counters, keeper)
	o.set(http.StatusNoContent, "7.a")
	for _, status = range []int{http.StatusServiceUnavailable, http.StatusNotFound} {
		o.exchanged(t, first)
	}
	require.Empty(t, kept.Kept())
	status, first.stored = http.StatusOK, ""
	o.exchanged(t, first)
	require.Equal(t, []string{"7.a"}, kept.Kept(), "stored once history is back")

	require.NoError(t, counters.FlushAll(t.Context()).Err())
	second := newReplica(o, counters, keeper)
	require.NoError(t, second.owner.Get(t.Context(), "/x", nil))
	require.Equal(t, "7.a", o.presented, "the first request has what history keeps")
	o.set(http.StatusNoContent, "8.b")
	o.exchanged(t, second)
	require.Equal(t, []string{"8.b"}, kept.Kept())
	require.NoError(t, counters.FlushAll(t.Context()).Err())
	o.set(http.StatusNoContent, "9.c")
	o.exchanged(t, first) // has not seen 8.b, so it must not replace it
	require.Equal(t, []string{"8.b"}, kept.Kept())
	require.Contains(t, o.exchanged(t, first), "8.b")
	require.Equal(t, []string{"9.c"}, kept.Kept())
}
