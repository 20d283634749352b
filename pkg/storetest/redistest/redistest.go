// Package redistest provides tests with real Redis servers and Sentinels. A test fails if
// redis-server is not installed.
package redistest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/storetest"
)

// Server is a redis-server process for one test.
type Server struct {
	URL string

	t           testing.TB
	port        string
	arguments   []string
	environment []string
	cmd         *exec.Cmd
}

// Start starts a redis-server on a free loopback port, with more environment variables. It is
// stopped after the test.
func Start(t testing.TB, environment ...string) *Server {
	t.Helper()
	return start(t, nil, environment)
}

// StartOn is Start, except that the server appends its data to files in dir and still has it after
// a restart.
func StartOn(t testing.TB, dir string, environment ...string) *Server {
	t.Helper()
	return start(t, []string{"--dir", dir, "--appendonly", "yes"}, environment)
}

func start(t testing.TB, arguments, environment []string) *Server {
	t.Helper()
	storetest.SkipIfQuick(t)
	s := &Server{t: t, arguments: append([]string{"--dir", t.TempDir()}, arguments...), environment: environment}
	t.Cleanup(s.Stop)
	_, port, err := net.SplitHostPort(storetest.FreeAddress(t))
	require.NoError(t, err)
	s.port, s.URL = port, "redis://127.0.0.1:"+port
	s.Start()
	return s
}

// Start starts the server, without data unless it is from StartOn, on the same port as before. It
// returns when the server is ready.
func (s *Server) Start() {
	s.t.Helper()
	arguments := append([]string{"--bind", "127.0.0.1", "--port", s.port, "--save", "", "--appendonly", "no"},
		s.arguments...)
	s.cmd = exec.Command("redis-server", arguments...) //nolint:noctx // ended by Stop
	s.cmd.Env = append(os.Environ(), s.environment...)
	out := storetest.Must(s.cmd.StdoutPipe())(s.t)
	require.NoError(s.t, s.cmd.Start(), "no redis-server: run tests with scripts/with-stores, which installs it")
	require.True(s.t, storetest.AwaitLine(out, "Ready to accept connections"), "redis-server exited before it was ready")
}

// Stop kills the server. Its data is lost unless it is from StartOn.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Flush deletes all data.
func (s *Server) Flush() {
	s.t.Helper()
	require.NoError(s.t, s.Client().FlushAll(context.Background()).Err())
}

// Client returns a new client of the server. It is closed after the test.
func (s *Server) Client() *redis.Client {
	s.t.Helper()
	return client(s.t, s.URL)
}

// Embedded returns a client of a new embedded server, which starts faster. Both are closed after
// the test.
func Embedded(t testing.TB) *redis.Client {
	t.Helper()
	s := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	t.Cleanup(s.Close)
	return client(t, s.URL())
}

func client(t testing.TB, url string) *redis.Client {
	t.Helper()
	c := redis.NewClient(storetest.Must(redis.ParseURL(url))(t))
	t.Cleanup(func() { _ = c.Close() })
	return c
}
