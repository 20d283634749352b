// Package storetest provides tests with real databases: a new Postgres database or an SQLite file.
// Package redistest provides Redis; it is apart because most tests of a store need none, and
// linking a Redis client takes longer than running them. A test fails if a store is unavailable.
// Run tests with scripts/with-stores, which provides Postgres and Redis. Only `make quick` skips
// these tests.
package storetest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/glebarez/go-sqlite" // the driver "sqlite"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
)

// PostgresVariable is the environment variable with the URL of the Postgres server for tests. Its
// user must be a superuser.
const PostgresVariable = "OPPORTUNITY_TEST_POSTGRES_URL"

// QuickVariable is the environment variable with which `make quick` skips every test that needs a
// store.
const QuickVariable = "OPPORTUNITY_TEST_QUICK"

// SkipIfQuick skips a test that needs a store if `make quick` runs it.
func SkipIfQuick(t testing.TB) {
	t.Helper()
	if os.Getenv(QuickVariable) != "" {
		t.Skip("needs a store, and " + QuickVariable + " is set")
	}
}

var databases atomic.Int64

// Databases returns the URL of a new database for each dialect, by dialect.
func Databases(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"postgres": Postgres(t), "sqlite": SQLite(t)}
}

// OnBothDatabases runs a test once on each dialect, with the URL of a new database. The two runs
// are parallel.
func OnBothDatabases(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	onBoth(t, Postgres, SQLite, test)
}

func onBoth(t *testing.T, postgres, sqlite func(testing.TB) string, test func(t *testing.T, url string)) {
	t.Helper()
	for dialect, create := range map[string]func(testing.TB) string{"postgres": postgres, "sqlite": sqlite} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

// SQLite returns the URL of a file that does not exist yet.
func SQLite(t testing.TB) string {
	t.Helper()
	SkipIfQuick(t)
	return "sqlite://" + filepath.Join(t.TempDir(), "test.db")
}

// Plain opens an SQLite file by its URL without the settings of pkg/database, as other programs
// would. It is closed after the test.
func Plain(t testing.TB, sqlite string) *sql.DB {
	t.Helper()
	db := Must(sql.Open("sqlite", strings.TrimPrefix(sqlite, "sqlite://")))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Postgres creates an empty database and returns its URL as superuser. The database is dropped
// after the test.
func Postgres(t testing.TB) string {
	t.Helper()
	requirePostgres(t)
	return createPostgres(t, "")
}

func requirePostgres(t testing.TB) {
	t.Helper()
	SkipIfQuick(t)
	require.NotEmpty(t, os.Getenv(PostgresVariable), "no Postgres: run tests with scripts/with-stores")
}

// createPostgres creates a database with options of CREATE DATABASE and returns its URL.
func createPostgres(t testing.TB, options string) string {
	t.Helper()
	server := os.Getenv(PostgresVariable)
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	require.NoError(t, administer(server, "CREATE DATABASE "+name+options))
	t.Cleanup(func() { require.NoError(t, administer(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")) })
	return Must(on(server, name))(t)
}

func on(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Role creates a Postgres role without rights other than to log in. It returns the name of the role
// and the URL of database with it. The role is dropped after the test.
func Role(t testing.TB, database string) (role, asRole string) {
	t.Helper()
	role = fmt.Sprintf("role_%d_%d", os.Getpid(), databases.Add(1))
	require.NoError(t, administer(database, "CREATE ROLE "+role+" LOGIN"))
	t.Cleanup(func() {
		require.NoError(t, administer(database, "DROP OWNED BY "+role))
		require.NoError(t, administer(database, "DROP ROLE "+role))
	})
	u := Must(url.Parse(database))(t)
	u.User = url.User(role)
	return role, u.String()
}

// Backup copies a database. Nothing may be connected to it. restore replaces the database with the
// copy and may be called once; on Postgres it ends all connections, while nothing may have an
// SQLite file open.
func Backup(t testing.TB, database string) (restore func()) {
	t.Helper()
	if file, ok := strings.CutPrefix(database, "sqlite://"); ok {
		checkpoint(t, database)
		content := Must(os.ReadFile(file))(t)
		return func() {
			for _, end := range []string{"-wal", "-shm"} {
				require.NoError(t, os.RemoveAll(file+end))
			}
			// A new file, because a connection that is still being closed writes to the old one.
			require.NoError(t, os.WriteFile(file+".backup", content, 0o600))
			require.NoError(t, os.Rename(file+".backup", file))
		}
	}
	server := os.Getenv(PostgresVariable)
	u := Must(url.Parse(database))(t)
	name := strings.TrimPrefix(u.Path, "/")
	saved := Must(url.Parse(createPostgres(t, " TEMPLATE "+name)))(t)
	return func() {
		require.NoError(t, administer(server, "DROP DATABASE "+name+" WITH (FORCE)"))
		require.NoError(t, administer(server, "ALTER DATABASE "+strings.TrimPrefix(saved.Path, "/")+" RENAME TO "+name))
	}
}

// checkpoint moves everything into the database's main file. Closing the last connection does so as
// well, but may end after Close.
func checkpoint(t testing.TB, database string) {
	t.Helper()
	Eventually(t, "checkpoint of SQLite", func() bool {
		db := Must(sql.Open("sqlite", strings.TrimPrefix(database, "sqlite://")))(t)
		defer db.Close()
		var busy, log, done int
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done))
		return busy == 0
	})
}

// shared is a connection to the server of the tests. It is kept, because opening one takes as long
// as copying a database.
var shared struct {
	sync.Mutex
	*pgx.Conn
}

func administer(url, statement string) (err error) {
	ctx := context.Background()
	if url != os.Getenv(PostgresVariable) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, statement)
		return errors.Join(err, conn.Close(ctx))
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.Conn == nil {
		if shared.Conn, err = pgx.Connect(ctx, url); err != nil {
			return err
		}
	}
	_, err = shared.Exec(ctx, statement)
	return err
}

// AwaitLine returns true when a line of out contains text, and false if there is none. It then
// reads the rest, because a full pipe would block the program.
func AwaitLine(out io.Reader, text string) bool {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			go func() {
				for lines.Scan() { //nolint:revive // drained on purpose
				}
			}()
			return true
		}
	}
	return false
}

// ports counts up from a random start, so that a process returns no address twice.
var ports atomic.Int64

func init() { ports.Store(rand.Int64N(10_000)) }

// FreeAddress returns a loopback address for a program that the test starts. Its port is below
// those that the kernel gives to connections and to listeners on port 0. Until the test ends, no
// other test process gets it: a UDP socket with the same number reserves it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(10_000+ports.Add(1)%10_000, 10))
		reserved, err := config.ListenPacket(context.Background(), "udp", address)
		if err == nil {
			var ln net.Listener
			if ln, err = config.Listen(context.Background(), "tcp", address); err == nil {
				t.Cleanup(func() { _ = reserved.Close() })
				require.NoError(t, ln.Close())
				AwaitForks()
				return address
			}
			_ = reserved.Close()
		}
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
}

// AwaitForks returns once the programs that this process is starting run. Until then each has a
// copy of every open file, so the port of a listener that was just closed may still be taken.
func AwaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

// Eventually fails the test unless ok returns true within two minutes, which a busy machine may
// need. It polls every 5 ms.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 2*time.Minute, 5*time.Millisecond, what)
}

// Must returns a function that returns the value of a call and fails the test if the call failed:
//
//	session := storetest.Must(store.Session(ctx, secret))(t)
func Must[T any](value T, err error) func(t require.TestingT) T {
	return func(t require.TestingT) T {
		require.NoError(t, err)
		return value
	}
}

// Err returns the error of a call whose value does not matter.
func Err[T any](_ T, err error) error { return err }

// Together calls do n times concurrently and returns the errors, in the order of the calls. require
// may end only the goroutine of a test, so do returns its errors.
func Together(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errs
}
