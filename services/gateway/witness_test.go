package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest/redistest"
)

// marked is a service that returns a mark, or a status other than 200.
type marked struct {
	*httptest.Server

	status atomic.Int64
	mark   atomic.Pointer[api.FeedMark]
	stored atomic.Pointer[api.FeedMark] // of the last request
	header atomic.Pointer[string]       // of the last request
}

func newMarked(t *testing.T) *marked {
	m := new(marked)
	m.status.Store(http.StatusOK)
	m.mark.Store(new(api.FeedMark))
	m.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		header, stored := r.Header.Get(api.SeenChangeHeader), new(api.FeedMark)
		_ = json.NewDecoder(r.Body).Decode(stored)
		m.header.Store(&header)
		m.stored.Store(stored)
		rw.WriteHeader(int(m.status.Load()))
		_ = json.NewEncoder(rw).Encode(m.mark.Load())
	}))
	t.Cleanup(m.Close)
	return m
}

// testWitness is a witness with the client that sends its requests.
type testWitness struct {
	*witness

	t        *testing.T
	client   *peer.Client
	counters *redis.Client
}

func newWitness(t *testing.T, authquota, history *marked) testWitness {
	counters := redistest.Start(t).Client()
	w := &witness{next: http.DefaultTransport, authquota: authquota.URL, history: peer.New(history.URL, "t", http.DefaultTransport)}
	return testWitness{w, t, peer.New(authquota.URL, "t", w), counters}
}

// changed sets the newest change in Redis.
func (w testWitness) changed(mark string) {
	require.NoError(w.t, w.counters.Set(w.t.Context(), counter.NewestChange, mark, 0).Err())
}

func (w testWitness) run() error { return w.update(w.counters)(w.t.Context()) }

func TestNewestChangeIsSentAndStored(t *testing.T) {
	authquota, history := newMarked(t), newMarked(t)
	history.mark.Store(&api.FeedMark{Sequence: 7, ID: "a"})
	w := newWitness(t, authquota, history)
	require.NoError(t, w.run(), "there is no change yet")
	require.NoError(t, w.client.Get(t.Context(), "/x", nil))
	require.Equal(t, "7.a", *authquota.header.Load(), "the first request has what history had stored")

	w.changed("8.b")
	require.NoError(t, w.run())
	require.Equal(t, api.FeedMark{Sequence: 8, ID: "b"}, *history.stored.Load())
	w.changed("3.c") // Redis was set back
	require.NoError(t, w.run())
	require.NoError(t, w.client.Get(t.Context(), "/x", nil))
	require.Equal(t, "8.b", *authquota.header.Load())

	require.NoError(t, peer.New(history.URL, "t", w.witness).Get(t.Context(), "/x", nil))
	require.Empty(t, *history.header.Load(), "other services do not get the header")
	w.changed("nothing")
	require.ErrorContains(t, w.run(), "not a mark")
}

// Without history, or with one of an older release, a gateway works as before.
func TestHistoryMayBeUnavailableAsWitness(t *testing.T) {
	authquota, history := newMarked(t), newMarked(t)
	w := newWitness(t, authquota, history)
	w.changed("8.b")
	for _, status := range []int64{http.StatusServiceUnavailable, http.StatusNotFound} {
		history.status.Store(status)
		require.NoError(t, w.run())
		require.NoError(t, w.client.Get(t.Context(), "/x", nil))
		require.Equal(t, "8.b", *authquota.header.Load())
	}
	history.status.Store(http.StatusInternalServerError)
	require.ErrorContains(t, w.run(), "500")
	history.status.Store(http.StatusOK)
	require.NoError(t, w.run())
	require.Equal(t, api.FeedMark{Sequence: 8, ID: "b"}, *history.stored.Load(), "stored once history is back")
}
