// Package storetest gives tests real stores of their own: a fresh Postgres database, an SQLite file, a redis-server process. A
// store that is missing fails the test; it is never skipped. scripts/with-stores provides what is needed.
package storetest

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/glebarez/go-sqlite"  // the driver "sqlite"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// PostgresVariable names the server for tests: the URL of a superuser.
const PostgresVariable = "OPPORTUNITY_TEST_POSTGRES_URL"

var databases atomic.Int64

// Databases gives a fresh store of each dialect, by its name.
func Databases(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"postgres": Postgres(t), "sqlite": SQLite(t)}
}

// SQLite is the URL of a file that does not exist yet.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite://" + filepath.Join(t.TempDir(), "test.db")
}

// Plain opens the SQLite file of a URL as any other program would: without the settings of pkg/database. It is closed with the test.
func Plain(t testing.TB, sqlite string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(sqlite, "sqlite://"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Postgres is the URL, as superuser, of a fresh empty database that is dropped after the test.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv(PostgresVariable)
	require.NotEmpty(t, server, "no Postgres for tests: run them by scripts/with-stores, which starts one")
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	administer(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { administer(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// Role makes a Postgres role that may log in and nothing else, dropped after the test, and returns its name and the database's
// URL with it.
func Role(t testing.TB, database string) (role, asRole string) {
	t.Helper()
	role = fmt.Sprintf("role_%d_%d", os.Getpid(), databases.Add(1))
	administer(t, database, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		administer(t, database, "DROP OWNED BY "+role)
		administer(t, database, "DROP ROLE "+role)
	})
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = url.User(role)
	return role, u.String()
}

func administer(t testing.TB, server, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(context.Background(), statement)
	require.NoError(t, err)
}

// RedisServer is a redis-server process of one test.
type RedisServer struct {
	URL string

	t    testing.TB
	port string
	cmd  *exec.Cmd
}

// Redis starts a redis-server on a free loopback port. It ends with the test.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	s := &RedisServer{t: t, port: freePort(t)}
	s.URL = "redis://127.0.0.1:" + s.port
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server, empty, on the same port as before, and returns when it answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", s.port, "--save", "", "--appendonly", "no") //nolint:noctx // ended by Stop
	out, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start(), "redis-server is needed: run the tests by scripts/with-stores, which installs it")
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { // a full pipe would stop the server
				for lines.Scan() { //nolint:revive // drained on purpose
				}
			}()
			return
		}
	}
	require.FailNow(s.t, "redis-server ended before it was ready")
}

// Stop kills the server; what it held is lost.
func (s *RedisServer) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Flush empties the server.
func (s *RedisServer) Flush() {
	s.t.Helper()
	require.NoError(s.t, s.Client().FlushAll(context.Background()).Err())
}

// Client is a client of the test's own, closed with it.
func (s *RedisServer) Client() *redis.Client {
	s.t.Helper()
	o, err := redis.ParseURL(s.URL)
	require.NoError(s.t, err)
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func freePort(t testing.TB) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	return port
}

// Eventually fails the test unless ok comes true; it asks again every few milliseconds, and gives up only when something must be
// broken.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 5*time.Millisecond, what)
}
