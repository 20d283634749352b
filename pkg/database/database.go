// Package database opens a service's database by its URL: Postgres in production, or an SQLite file
// on a single machine. Both are used through gorm, and this package hides their differences.
//
// Open returns a DB, whose statements are traced without their values. Migrate creates the schema
// as its owner and grants the role that serves only what serving needs. Outage turns the errors of
// an unavailable database into 503; a Breaker makes statements fail at once during an outage.
// Insert and its variants write many rows in few statements, and NextSequence numbers changes in
// the order of their commits.
package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	sqlitedriver "github.com/glebarez/go-sqlite"
	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// Dialects.
const (
	Postgres = "postgres"
	SQLite   = "sqlite"
)

// Config holds the settings of the database.
type Config struct {
	URL            string `env:"OPPORTUNITY_DATABASE_URL,required,notEmpty" doc:"Secret. postgres://user:password@host:port/database?search_path=schema, or sqlite:///absolute/path.db. Several Postgres servers are separated by commas, as in host:port,host:port: connections go to the one that accepts writes."`
	ServingRole    string `env:"OPPORTUNITY_DATABASE_SERVING_ROLE" doc:"Postgres role of the serving processes. migrate grants it the rights they need. Empty: migrate grants nothing."`
	MaxConnections int    `env:"OPPORTUNITY_DATABASE_MAX_CONNECTIONS" envDefault:"10" doc:"Maximum number of connections of one process."`
	AllowOwner     bool   `env:"OPPORTUNITY_DATABASE_ALLOW_OWNER" envDefault:"false" doc:"Serve with a Postgres role that can change append-only tables, such as their owner or a superuser. For development only."`
	AllowPlaintext bool   `env:"OPPORTUNITY_ALLOW_PLAINTEXT_STORES" envDefault:"false" doc:"Connect to Postgres and Redis on other machines without TLS. For development only: the connections carry passwords and accounts."`
	Access         Access `env:"-"`
}

// Access is the access of a connection to an SQLite file. On Postgres, roles limit access.
type Access string

const (
	Full     Access = ""   // read and write; creates a missing file
	Existing Access = "rw" // read and write an existing file
	ReadOnly Access = "ro" // read an existing file
)

// Validate returns an error if a setting is invalid. The error never has its value.
func (c Config) Validate() error {
	if c.URL == "" {
		return nil // the "required" tag reports this
	}
	if _, _, err := c.dialector(); err != nil {
		return err
	}
	if c.MaxConnections < 1 {
		return errors.New("OPPORTUNITY_DATABASE_MAX_CONNECTIONS must be at least 1")
	}
	return nil
}

// DB is an open database.
type DB struct {
	*gorm.DB

	Dialect    string // Postgres or SQLite
	Where      string // the address and name, or the file
	writes     *writes
	pool       *sql.DB
	allowOwner bool
}

// Open creates a connection pool. It does not connect to Postgres yet, so a service can start
// before its database.
func Open(cfg Config, tel *telemetry.Telemetry) (*DB, error) {
	u, dialector, err := cfg.dialector()
	if err != nil {
		return nil, err
	}
	dialect := dialector.Name()
	if dialect == SQLite && cfg.Access != Full {
		if _, err := os.Stat(u.Path); err != nil {
			return nil, fmt.Errorf("no database: %w", err)
		}
	}
	orm, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true, // every multi-statement change opens its own
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned, and logs must not contain values of statements
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
	where := u.Path
	if dialect == Postgres {
		where = u.Host + u.Path
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", where, err)
	}
	accepted := newWrites(tel.Registry)
	err = observe(orm, "writes", func(*gorm.DB) {}, func(tx *gorm.DB) { accepted.note(tx.Error) })
	if tel.Tracing() {
		err = errors.Join(err, observe(orm, "tracing", newTracing(tel.Tracer, dialect, u).before, after))
	}
	if err != nil {
		return nil, err
	}
	pool, err := orm.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(cfg.MaxConnections)
	pool.SetMaxIdleConns(cfg.MaxConnections)
	pool.SetConnMaxLifetime(30 * time.Minute)
	orm.Statement.ConnPool = connections{pool, accepted}
	return &DB{DB: orm, Dialect: dialect, Where: where, writes: accepted, pool: pool, allowOwner: cfg.AllowOwner}, nil
}

// dialector returns the parsed URL and its dialector, whose name is Postgres or SQLite.
func (c Config) dialector() (u *url.URL, dialector gorm.Dialector, err error) {
	if u, err = url.Parse(c.URL); err != nil {
		return nil, nil, errors.New("OPPORTUNITY_DATABASE_URL is not a URL") // err would quote it, including the password
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		dialector, err = openPostgres(*u, c.AllowPlaintext)
		return u, dialector, err
	case "sqlite":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return nil, nil, errors.New("OPPORTUNITY_DATABASE_URL must name an absolute file: sqlite:///path/file.db")
		}
		return u, sqlite.Open(sqliteDSN(u.Path, c.Access)), nil
	}
	return nil, nil, errors.New("OPPORTUNITY_DATABASE_URL must begin with postgres:// or sqlite://")
}

// sqliteDSN returns the driver's name of the file. It sets recursive_triggers, because INSERT OR
// REPLACE would otherwise bypass the triggers that make tables append-only, and immediate
// transactions, because a transaction that starts with a read and then writes can fail with
// "database is locked". Each commit waits for the disk: with synchronous=NORMAL, a loss of power
// would undo acknowledged ones.
func sqliteDSN(path string, access Access) string {
	file := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	if access == ReadOnly {
		return file + "&mode=ro"
	}
	if access == Existing {
		file += "&mode=rw"
	}
	return file + "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=recursive_triggers(1)&_txlock=immediate"
}

// Close closes all connections.
func (d *DB) Close() error { return d.pool.Close() }

// Ping returns an error unless the database responds.
func (d *DB) Ping(ctx context.Context) error { return d.pool.PingContext(ctx) }

// NextSequence increments the single row of change_sequence and returns its value. The row stays
// locked until tx ends. Call it first in every transaction that changes data: sequence order then
// equals commit order, so no number below N appears after a reader has seen N.
func NextSequence(tx *gorm.DB) (int64, error) {
	var value int64
	err := tx.Raw("UPDATE change_sequence SET value = value + 1 WHERE id = 1 RETURNING value").Scan(&value).Error
	if err == nil && value == 0 {
		err = errors.New("table change_sequence has no row 1")
	}
	return value, err
}

// PreferIndexes makes Postgres find rows by indexes, in one process, until tx ends. Call it in
// transactions that look up a few rows while others write many: Postgres has no statistics of what
// was just written, expects a great part of the table to match, and would read all of it for each
// lookup.
func PreferIndexes(tx *gorm.DB) error {
	if tx.Name() != Postgres {
		return nil
	}
	return tx.Exec("SELECT set_config('enable_seqscan', 'off', true), set_config('max_parallel_workers_per_gather', " +
		"'0', true)").Error
}

// IsUnavailable reports whether err means that the database is unreachable or overloaded, as
// opposed to an invalid statement. The caller should then respond with service_unavailable.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	if errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) {
		return true
	}
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		// SQLSTATE classes and codes (Postgres manual, appendix A): 08 connection exception, 40
		// rollback to be retried, 53 insufficient resources, 57 operator intervention, 25006
		// read-only server (as after a failover), 55P03 lock not available
		class := pg.Code[:min(2, len(pg.Code))]
		return class == "08" || class == "40" || class == "53" || class == "57" || pg.Code == readOnly || pg.Code == "55P03"
	}
	if lite := new(sqlitedriver.Error); errors.As(err, &lite) {
		switch lite.Code() & 0xff { // SQLITE_BUSY, LOCKED, IOERR, FULL, CANTOPEN
		case 5, 6, 10, 13, 14:
			return true
		}
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed) ||
		strings.Contains(err.Error(), "sql: database is closed") // database/sql does not export this error
}

// Outage returns problem.Unavailable with cause err if IsUnavailable(err), otherwise err. An err
// that is already a problem.Error is returned unchanged.
func Outage(err error) error {
	if known := (*problem.Error)(nil); !errors.As(err, &known) && IsUnavailable(err) {
		return problem.Unavailable(err)
	}
	return err
}

// Micros returns t as stored in both dialects: microseconds since 1970 UTC.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros returns the time of a stored value, in UTC. It is the inverse of Micros.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
