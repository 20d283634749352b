package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body := storetest.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(body)
}

// serving is a group with a server.
type serving struct {
	*server.Group

	address, url string
	stop         func()
}

// serve starts a server that is ready if ready, which may be nil, says so. It stops with the test.
func serve(t *testing.T, grace time.Duration, ready *server.Ready, h http.Handler) serving {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	group := server.NewGroup(ctx, server.Config{Grace: grace, Drain: time.Minute}, quiet, ready)
	ports := storetest.Must(server.Open(t.Context(), []server.Port{{Address: "127.0.0.1:0"}}))(t)
	group.HTTP("test", ports[0].Listener, h)
	t.Cleanup(func() {
		stop()
		require.NoError(t, group.Wait())
	})
	address := ports[0].Listener.Addr().String()
	return serving{group, address, "http://" + address, stop}
}

var noContent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

func TestStopDrainsRequestsAndEndsLongPolls(t *testing.T) {
	ready := new(server.Ready)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("/poll", func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-server.Draining(r)
		_, _ = io.WriteString(w, "nothing new")
	})
	s := serve(t, 0, ready, mux)

	responses := make(chan string, 2)
	for _, path := range []string{"/slow", "/poll"} {
		go func() { _, body := get(t, s.url+path); responses <- body }()
	}
	<-arrived
	<-arrived
	s.stop()
	require.Equal(t, "nothing new", <-responses)
	storetest.Eventually(t, "not ready while stopping", func() bool { return len(ready.Missing(t.Context())) == 1 })
	close(release)
	require.Equal(t, "done", <-responses)
	require.NoError(t, s.Wait())
	status, _ := get(t, s.url)
	require.Zero(t, status, "the listener is closed")
}

func TestStoppingServerClosesConnections(t *testing.T) {
	s := serve(t, time.Second, nil, noContent)
	ends := func() (status int, last bool) {
		req := storetest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil))(t)
		resp := storetest.Must(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		return resp.StatusCode, resp.Close
	}
	status, last := ends()
	require.Equal(t, http.StatusNoContent, status)
	require.False(t, last)
	s.stop()
	status, last = ends()
	require.Equal(t, http.StatusNoContent, status, "must keep serving during the grace period")
	require.True(t, last)
}

func TestFirstFailureStopsGroup(t *testing.T) {
	group := server.NewGroup(t.Context(), server.Config{Drain: time.Minute}, quiet, nil)
	ended := make(chan struct{})
	group.Go("follower", func(ctx context.Context) error { <-ctx.Done(); close(ended); return ctx.Err() })
	group.Go("leader", func(context.Context) error { return errors.New("no schema") })
	require.EqualError(t, group.Wait(), "leader: no schema")
	<-ended
}

func TestMisbehavingClientLosesOnlyItsConnection(t *testing.T) {
	s := serve(t, 0, nil, noContent)
	for name, sent := range map[string]string{
		"rubbish":        "\x16\x03\x01\x00\xff\r\n\r\n",
		"a long header":  "GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
		"a long address": "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := storetest.Must(net.Dial("tcp", s.address))(t) //nolint:noctx // loopback
		_, _ = io.WriteString(conn, sent)
		response, _ := io.ReadAll(conn) // until the server closes it
		require.True(t, len(response) == 0 || strings.HasPrefix(string(response), "HTTP/1.1 4"), "%s: %s", name, response)
		require.NoError(t, conn.Close())
		status, _ := get(t, s.url)
		require.Equal(t, http.StatusNoContent, status)
	}
}

func TestOperations(t *testing.T) {
	ready := new(server.Ready)
	missing := errors.New("down")
	ready.Add("database", func(context.Context) error { return missing })
	ready.Add("snapshot", func(context.Context) error { return nil })
	url := serve(t, 0, ready, server.Operations(ready, http.NotFoundHandler())).url

	status, body := get(t, url+"/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"not ready","missing":["database"]}`, body)
	status, _ = get(t, url+"/livez")
	require.Equal(t, 200, status)
	missing = nil
	status, body = get(t, url+"/readyz")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"status":"ready"}`, body)

	fault := ""
	ready.Report(func() string { return fault })
	_, body = get(t, url+"/readyz")
	require.JSONEq(t, `{"status":"ready"}`, body)
	fault = "the token is rejected"
	status, body = get(t, url+"/readyz")
	require.Equal(t, 200, status, "a fault does not make the service unready")
	require.JSONEq(t, `{"status":"ready","faults":["the token is rejected"]}`, body)
	missing = server.Fault("the database has a fault")
	status, body = get(t, url+"/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"status":"not ready","missing":["the database has a fault"],"faults":["the token is rejected"]}`,
		body)
}

// A request whose body may end elsewhere for a proxy in front is the last one of its connection.
func TestConnectionClosesAfterARequestWithTwoLengths(t *testing.T) {
	s := serve(t, 0, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "done")
	}))
	const next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		closed  bool
	}{
		"both": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			true},
		"other order": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
			true},
		"GET": {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			true},
		"HTTP/1.0": {"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 1\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0", true},
		"HTTP/1.0 chunked": {"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
			true},
		"length":  {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n0", false},
		"no body": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false},
	} {
		conn := storetest.Must(net.Dial("tcp", s.address))(t)
		_, err := io.WriteString(conn, c.request+next+"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		replies, err := io.ReadAll(conn)
		if !c.closed {
			require.NoError(t, err, name)
		}
		want := 3
		if c.closed {
			want = 1
		}
		require.Equal(t, want, strings.Count(string(replies), "done"), name)
		require.NoError(t, conn.Close())
	}
}
