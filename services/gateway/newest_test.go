package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/storetest/redistest"
)

// A replica, and one that starts later, report what was seen before the database of the service was restored, until an operator accepts it.
func TestNewestIsReportedAfterARestore(t *testing.T) {
	at := func(sequence, number int64) api.Seen {
		return api.Seen{Mark: api.FeedMark{Sequence: sequence, ID: "a"}, Checkpoint: api.SignedCheckpoint{Number: number, Note: "b"}}
	}
	var got, has api.Seen
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = api.Seen{}
		require.Equal(t, api.NewestPath, r.URL.Path)
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(has)
	}))
	defer s.Close()
	counters := redistest.Start(t).Client()
	start := func() *reporter {
		return &reporter{name: "history", service: peer.New(s.URL, "t", http.DefaultTransport), counters: counters}
	}
	report := func(r *reporter) api.Seen {
		require.NoError(t, r.report(t.Context()))
		return got
	}
	first := start()
	has = at(7, 2)
	require.Zero(t, report(first))
	require.Equal(t, at(7, 2), report(first))

	status, has = http.StatusServiceUnavailable, at(5, 1) // set back
	require.Equal(t, at(7, 2), report(first))
	require.Equal(t, at(7, 2), report(first))
	require.Equal(t, at(7, 2), report(start()), "Redis has it")
	require.NoError(t, counters.Del(t.Context(), counter.Newest("history")).Err())
	require.Equal(t, at(7, 2), report(first), "this replica has it")

	status = http.StatusOK // the loss was accepted
	require.Equal(t, at(7, 2), report(first))
	require.Equal(t, at(5, 1), report(first))
	require.Equal(t, at(5, 1), report(start()))
	status = http.StatusNotFound // an older release
	require.Equal(t, at(5, 1), report(first))
	status = http.StatusInternalServerError
	require.ErrorContains(t, first.report(t.Context()), "500")
}
