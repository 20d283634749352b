package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	sqlitedriver "github.com/glebarez/go-sqlite"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
)

// memory is the time for which a failed write counts as the state of the database. On Postgres with
// a full disk some writes succeed.
const memory = time.Minute

// writes notes statements that failed because the database accepts no writes.
type writes struct {
	failures prometheus.Counter
	latest   atomic.Pointer[failedWrite]
}

type failedWrite struct {
	at   time.Time
	text string
}

func newWrites(registry prometheus.Registerer) *writes {
	w := &writes{failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "database_write_failures_total",
		Help: "Statements that failed because the database accepts no writes: disk full or failing, or read-only.",
	})}
	_ = registry.Register(w.failures) // migrate opens a second connection pool
	return w
}

func (w *writes) note(err error) {
	if rejectsWrites(err) {
		w.failures.Inc()
		w.latest.Store(&failedWrite{time.Now(), err.Error()})
	}
}

// connections note commits that fail, for which gorm has no callback: with SQLite, a full disk fails
// the commit and not the statements before it.
type connections struct {
	*sql.DB
	writes *writes
}

func (c connections) GetDBConn() (*sql.DB, error) { return c.DB, nil }

func (c connections) BeginTx(ctx context.Context, options *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := c.DB.BeginTx(ctx, options)
	return &transaction{tx, c.writes}, err
}

type transaction struct {
	*sql.Tx
	writes *writes
}

func (t *transaction) Commit() error {
	err := t.Tx.Commit()
	t.writes.note(err)
	return err
}

func rejectsWrites(err error) bool {
	if pg := new(pgconn.PgError); errors.As(err, &pg) {
		return pg.Code == readOnly || pg.Code == "53100" || pg.Code == "58030" // disk_full, io_error
	}
	if lite := new(sqlitedriver.Error); errors.As(err, &lite) {
		switch lite.Code() & 0xff { // SQLITE_READONLY, IOERR, CORRUPT, FULL, NOTADB
		case 8, 10, 11, 13, 26:
			return true
		}
	}
	return false
}

// Probe returns an error if the database is unreachable, or accepts no writes now or did not within
// the last minute. It writes a row without changing it. A transaction that holds the row until ctx
// ends is no error.
func (d *DB) Probe(ctx context.Context) error {
	if err := d.Ping(ctx); err != nil {
		return err
	}
	_ = d.WithContext(ctx).Exec("UPDATE change_sequence SET value = value WHERE id = 1") // a failure is noted
	if failed := d.writes.latest.Load(); failed != nil && time.Since(failed.at) < memory {
		return fmt.Errorf("database accepts no writes: %s", failed.text)
	}
	return nil
}
