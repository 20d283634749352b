package load

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachCallIsMadeOnceAndCounted(t *testing.T) {
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		if r.URL.Path == "/busy" || r.Header.Get("Accept-Encoding") != "gzip" || len(r.Header.Get("Authorization")) != 10 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(make([]byte, 1000))
	}))
	defer s.Close()
	for _, rate := range []float64{0, 2000} {
		arrived.Store(0)
		r := Load{
			Address: s.Listener.Addr().String(), Paths: []string{"/list", "/busy"}, Keys: []string{"one", "two"},
			Header: "Accept-Encoding: gzip\r\n", Connections: 16, Count: 200, Rate: rate,
		}.Run(t.Context())
		require.EqualValues(t, 200, arrived.Load())
		require.Equal(t, []int{200, 100, 100}, []int{r.Sent, r.Failed, len(r.Took)}, r.Failure)
		require.EqualValues(t, 100_000, r.Bytes)
		require.LessOrEqual(t, r.Quantile(0.5), r.Quantile(1))
	}
}
