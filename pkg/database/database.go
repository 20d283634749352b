// Package database opens a service's store by its URL: Postgres in production, an SQLite file for one machine. Both are reached
// through gorm with the same code; where they differ, the difference ends here.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	sqlitedriver "github.com/glebarez/go-sqlite"
	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"opportunity.internal/pkg/telemetry"
)

// The dialects.
const (
	Postgres = "postgres"
	SQLite   = "sqlite"
)

// Config says where the data lies.
type Config struct {
	URL            string `env:"OPPORTUNITY_DATABASE_URL,required,notEmpty" doc:"Secret. postgres://user:password@host/database?search_path=schema, or sqlite:///absolute/path.db."`
	ServingRole    string `env:"OPPORTUNITY_DATABASE_SERVING_ROLE" doc:"Postgres role to which migrate grants what serving needs, and no more. Empty: nobody is granted anything."`
	MaxConnections int    `env:"OPPORTUNITY_DATABASE_MAX_CONNECTIONS" envDefault:"10" doc:"Most connections of one process."`
	Access         Access `env:"-"`
}

// Access says what a connection may do to an SQLite file. Postgres has roles for that.
type Access string

const (
	Full     Access = ""   // read and write; a file that does not exist is created
	Existing Access = "rw" // read and write a file that exists
	ReadOnly Access = "ro" // read a file that exists
)

// Validate names what is wrong with the settings, without their values.
func (c Config) Validate() error {
	if c.URL == "" {
		return nil // its absence is already reported
	}
	if _, _, err := c.open(); err != nil {
		return err
	}
	if c.MaxConnections < 1 {
		return errors.New("OPPORTUNITY_DATABASE_MAX_CONNECTIONS must be at least 1")
	}
	return nil
}

// DB is an open store.
type DB struct {
	*gorm.DB

	Dialect string // Postgres or SQLite
	pool    *sql.DB
}

// Open prepares a pool. It does not yet connect to Postgres, so a service starts while its database is still away.
func Open(cfg Config, tel *telemetry.Telemetry) (*DB, error) {
	dialect, dialector, err := cfg.open()
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(cfg.URL); err == nil && dialect == SQLite && cfg.Access != Full {
		if _, err := os.Stat(u.Path); err != nil {
			return nil, fmt.Errorf("no database: %w", err)
		}
	}
	orm, err := gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true, // every multi-statement change opens its own
		TranslateError:         true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned, and a statement's values are nobody's business
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
	if err != nil {
		return nil, err
	}
	if tel.Tracing() {
		if err := orm.Use(tracing{tel.Tracer, dialect}); err != nil {
			return nil, err
		}
	}
	pool, err := orm.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(cfg.MaxConnections)
	pool.SetMaxIdleConns(cfg.MaxConnections)
	pool.SetConnMaxLifetime(30 * time.Minute)
	return &DB{DB: orm, Dialect: dialect, pool: pool}, nil
}

func (c Config) open() (dialect string, dialector gorm.Dialector, err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", nil, errors.New("OPPORTUNITY_DATABASE_URL is not a URL") // err quotes it, password included
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		q := u.Query()
		if q.Get("connect_timeout") == "" {
			q.Set("connect_timeout", "2")
		}
		u.RawQuery = q.Encode()
		if _, err := pgconn.ParseConfig(u.String()); err != nil {
			return "", nil, errors.New("OPPORTUNITY_DATABASE_URL is not a valid Postgres URL")
		}
		return Postgres, postgres.Open(u.String()), nil
	case "sqlite":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return "", nil, errors.New("OPPORTUNITY_DATABASE_URL must name an absolute file: sqlite:///path/file.db")
		}
		return SQLite, sqlite.Open(sqliteDSN(u.Path, c.Access)), nil
	}
	return "", nil, errors.New("OPPORTUNITY_DATABASE_URL must begin with postgres:// or sqlite://")
}

// sqliteDSN: recursive_triggers, because without it INSERT OR REPLACE slips past the triggers that keep tables append-only;
// immediate transactions, because a reader that turns writer half-way would fail with "database is locked".
func sqliteDSN(path string, access Access) string {
	file := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	if access == ReadOnly {
		return file + "&mode=ro"
	}
	if access == Existing {
		file += "&mode=rw"
	}
	return file + "&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=recursive_triggers(1)&_txlock=immediate"
}

// Close ends all connections.
func (d *DB) Close() error { return d.pool.Close() }

// Ping asks whether the database answers.
func (d *DB) Ping(ctx context.Context) error { return d.pool.PingContext(ctx) }

// NextSequence raises the single row of change_sequence and holds its lock until tx ends. Called first in every transaction
// that changes something, it makes the order of the sequence equal to the order of the commits: a reader that has seen N will
// never meet a number below N that it has not seen.
func NextSequence(tx *gorm.DB) (int64, error) {
	var value int64
	err := tx.Raw("UPDATE change_sequence SET value = value + 1 WHERE id = 1 RETURNING value").Scan(&value).Error
	if err == nil && value == 0 {
		err = errors.New("table change_sequence has no row 1")
	}
	return value, err
}

// IsUnavailable reports whether err says that the database is out of reach or overloaded, rather than that a statement is
// wrong: the caller answers service_unavailable then.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	if errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err) {
		return true
	}
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		// SQLSTATE of the Postgres manual, appendix A: connection exceptions, rollbacks that ask for another try, insufficient
		// resources, operator intervention; a server that is read-only, as one is after a failover; a lock not to be had
		class := pg.Code[:min(2, len(pg.Code))]
		return class == "08" || class == "40" || class == "53" || class == "57" || pg.Code == "25006" || pg.Code == "55P03"
	}
	if lite := new(sqlitedriver.Error); errors.As(err, &lite) {
		switch lite.Code() & 0xff { // SQLITE_BUSY, LOCKED, IOERR, FULL, CANTOPEN
		case 5, 6, 10, 13, 14:
			return true
		}
	}
	for _, broken := range []string{"unexpected EOF", "connection reset", "broken pipe", "conn closed", "database is closed"} {
		if strings.Contains(err.Error(), broken) { // pgx reports a cut connection by wrapped text in places
			return true
		}
	}
	return false
}

// Micros is how instants are stored: microseconds since 1970 UTC, alike in both dialects and sortable.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// FromMicros is the inverse of Micros, in UTC.
func FromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
