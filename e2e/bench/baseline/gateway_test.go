package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest/redistest"
)

func TestGatewayAdmitsUpToTheLimitAndForwards(t *testing.T) {
	redis := redistest.Start(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("Authorization")+" "+r.URL.Path)
	}))
	defer service.Close()
	to, err := url.Parse(service.URL)
	require.NoError(t, err)
	accounts := map[string]string{"Bearer a": "1", "Bearer b": "2"}
	server := httptest.NewServer(gateway(redis.Client(), accounts, 2, to, http.Header{"Authorization": {"Bearer internal"}}))
	defer server.Close()
	call := func(key string) *http.Response {
		r, err := http.NewRequest(http.MethodGet, server.URL+"/api/v1/opportunities/x", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", key)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	require.Equal(t, http.StatusUnauthorized, call("Bearer c").StatusCode)
	for range 2 {
		w := call("Bearer a")
		require.Equal(t, http.StatusOK, w.StatusCode)
		require.Equal(t, "Bearer internal /api/v1/opportunities/x", w.Header.Get("X-Seen"))
	}
	require.Equal(t, http.StatusTooManyRequests, call("Bearer a").StatusCode)
	require.Equal(t, http.StatusOK, call("Bearer b").StatusCode)
	redis.Stop()
	require.Equal(t, http.StatusServiceUnavailable, call("Bearer b").StatusCode)
}
