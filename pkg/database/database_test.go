package database_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

var migrations = fstest.MapFS{
	"migrations/postgres/00001_tables.sql": {Data: []byte(`-- +goose Up
CREATE TABLE change_sequence (id integer PRIMARY KEY CHECK (id = 1), value bigint NOT NULL);
INSERT INTO change_sequence VALUES (1, 0);
CREATE TABLE things (id text PRIMARY KEY, sequence bigint NOT NULL);
CREATE TABLE facts (id text PRIMARY KEY);
COMMENT ON TABLE facts IS 'append-only';`)},
	"migrations/sqlite/00001_tables.sql": {Data: []byte(`-- +goose Up
CREATE TABLE change_sequence (id integer PRIMARY KEY CHECK (id = 1), value bigint NOT NULL);
INSERT INTO change_sequence VALUES (1, 0);
CREATE TABLE things (id text PRIMARY KEY, sequence bigint NOT NULL);`)},
}

func start(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	return storetest.Must(telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard}))(t)
}

func migrate(t *testing.T, cfg database.Config) {
	t.Helper()
	cfg.MaxConnections = 4
	require.NoError(t, database.Migrate(t.Context(), cfg, start(t), migrations))
}

func open(t *testing.T, url string) *database.DB {
	t.Helper()
	return openAs(t, database.Config{URL: url, MaxConnections: 8}, start(t))
}

func single(t *testing.T, url string) *database.DB {
	t.Helper()
	return openAs(t, database.Config{URL: url, MaxConnections: 1}, start(t))
}

func openAs(t *testing.T, cfg database.Config, tel *telemetry.Telemetry) *database.DB {
	t.Helper()
	db := storetest.Must(database.Open(cfg, tel))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// An acknowledged change must survive a loss of power, as on Postgres. 2 is FULL.
func TestSQLiteCommitsWaitForTheDisk(t *testing.T) {
	db := open(t, "sqlite://"+filepath.Join(t.TempDir(), "test.db"))
	var journal string
	var synchronous int
	require.NoError(t, db.Raw("PRAGMA journal_mode").Scan(&journal).Error)
	require.NoError(t, db.Raw("PRAGMA synchronous").Scan(&synchronous).Error)
	require.Equal(t, "wal", journal)
	require.Equal(t, 2, synchronous)
}

func TestMigrateAndAwait(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		cfg, tel, db := database.Config{URL: url, MaxConnections: 4}, start(t), open(t, url)
		require.Error(t, db.Current(t.Context(), migrations))

		waited := make(chan error, 1)
		go func() { waited <- db.Await(t.Context(), tel, migrations) }()
		var all sync.WaitGroup
		for range map[string]int{database.SQLite: 1, database.Postgres: 3}[db.Dialect] {
			all.Go(func() { require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations)) })
		}
		all.Wait()
		require.NoError(t, <-waited)
		require.NoError(t, db.Current(t.Context(), migrations))
		require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations), "a second migration does nothing")

		newer := maps.Clone(migrations)
		newer["migrations/"+db.Dialect+"/00002_later.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE later (id bigint);")}
		require.Error(t, db.Current(t.Context(), newer))
		require.NoError(t, database.Migrate(t.Context(), cfg, tel, newer))
		require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations), "going back keeps the newer schema")
		require.NoError(t, db.Current(t.Context(), migrations))
		require.NoError(t, db.Current(t.Context(), newer))
	})
}

func TestSequenceOrderIsCommitOrder(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		migrate(t, database.Config{URL: url})
		db := open(t, url)
		const writers, each = 4, 10 // SQLite lets one wait until all others are done
		all, ctx := errgroup.WithContext(t.Context())
		for w := range writers {
			all.Go(func() error {
				for i := range each {
					if err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
						seq, err := database.NextSequence(tx)
						if err != nil {
							return err
						}
						return tx.Exec("INSERT INTO things (id, sequence) VALUES (?, ?)", string(rune('a'+w))+string(rune('a'+i)),
							seq).Error
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		// A concurrent reader that follows the sequence must see each number exactly once, in
		// order.
		var seen []int64
		for last := int64(0); len(seen) < writers*each && ctx.Err() == nil; {
			var more []int64
			require.NoError(t, db.WithContext(t.Context()).Raw("SELECT sequence FROM things WHERE sequence > ? ORDER BY "+
				"sequence", last).Scan(&more).Error)
			if len(more) > 0 {
				seen, last = append(seen, more...), more[len(more)-1]
			}
		}
		require.NoError(t, all.Wait())
		require.Len(t, seen, writers*each)
		for i, seq := range seen {
			require.Equal(t, int64(i+1), seq)
		}
	})
}

func TestServingRoleCannotChangeAppendOnlyTables(t *testing.T) {
	url := storetest.Postgres(t)
	role, asRole := storetest.Role(t, url)
	migrate(t, database.Config{URL: url, ServingRole: role})
	db := open(t, asRole).WithContext(t.Context())
	for statement, allowed := range map[string]bool{
		"INSERT INTO things (id, sequence) VALUES ('a', 1)": true,
		"UPDATE things SET sequence = 2":                    true,
		"DELETE FROM things":                                true,
		"INSERT INTO facts (id) VALUES ('a')":               true,
		"UPDATE facts SET id = 'b'":                         false,
		"DELETE FROM facts":                                 false,
		"TRUNCATE facts":                                    false,
		"DROP TABLE facts":                                  false,
		"CREATE TABLE more (id text)":                       false,
		"UPDATE goose_db_version SET is_applied = false":    false,
	} {
		err := db.Exec(statement).Error
		require.Equal(t, allowed, err == nil, "%s: %v", statement, err)
	}
}

// Every deployment runs migrate while the previous version serves, even if there is no new
// migration.
func TestServingContinuesDuringMigrate(t *testing.T) {
	url := storetest.Postgres(t)
	role, asRole := storetest.Role(t, url)
	cfg, tel := database.Config{URL: url, ServingRole: role, MaxConnections: 4}, start(t)
	migrate(t, cfg)
	db, done := open(t, asRole).WithContext(t.Context()), make(chan error)
	go func() {
		var err error
		for range 10 {
			err = errors.Join(err, database.Migrate(t.Context(), cfg, tel, migrations))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
			require.NoError(t, db.Exec("SELECT count(*) FROM things").Error)
		}
	}
}

func TestUnreachableDatabaseIsDistinguishedFromInvalidStatement(t *testing.T) {
	err := open(t, "postgres://nobody@127.0.0.1:1/none").WithContext(t.Context()).Exec("SELECT 1").Error
	require.True(t, database.IsUnavailable(err), "%v", err)
	_, err = database.Open(database.Config{URL: "sqlite:///nowhere/at/all.db", MaxConnections: 1}, start(t))
	require.True(t, database.IsUnavailable(err), "%v", err)
	for dialect, url := range storetest.Databases(t) {
		db := open(t, url)
		require.False(t, database.IsUnavailable(db.WithContext(t.Context()).Exec("SELECT nonsense FROM nowhere").Error),
			dialect)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, database.IsUnavailable(db.WithContext(ctx).Exec("SELECT 1").Error), "the caller canceled")
		require.NoError(t, db.Close())
		require.True(t, database.IsUnavailable(db.WithContext(t.Context()).Exec("SELECT 1").Error), "closed")
	}
	for code, unavailable := range map[string]bool{
		"25006": true, "40001": true, "40P01": true, "53300": true, "55P03": true, "57P01": true, "08006": true,
		"42501": false, "42P01": false, "22021": false, "23505": false,
	} {
		require.Equal(t, unavailable, database.IsUnavailable(&pgconn.PgError{Code: code}), code)
	}
	for _, broken := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, pgconn.ErrConnClosed,
		net.ErrClosed, sql.ErrConnDone} {
		require.True(t, database.IsUnavailable(fmt.Errorf("receiving message: %w", broken)), broken)
	}
	require.True(t, database.IsUnavailable(driver.ErrBadConn),
		"what database/sql returns when it cannot use three connections in a row")
	require.False(t, database.IsUnavailable(nil))
	require.False(t, database.IsUnavailable(errors.New("other")))
}

func TestConfigErrorsDoNotRepeatThePassword(t *testing.T) {
	for _, url := range []string{"mysql://u:secret@h/d", "postgres://u:secret@h:port/d", "sqlite://secret",
		"postgres://u:secret@h/d?sslmode=no", ":secret",
		"postgres://u:secret@h,i/d?target_session_attrs=any", "postgres://u:secret@h/d?target_session_attrs=standby"} {
		err := database.Config{URL: url, MaxConnections: 1}.Validate()
		require.ErrorContains(t, err, "OPPORTUNITY_DATABASE_URL", url)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, url := range []string{
		"postgres://u:p@h:5432/d?search_path=catalog", "postgres://u:p@h:5432,i:5433/d",
		"postgres://u:p@h,i/d?target_session_attrs=read-write",
	} {
		require.NoError(t, database.Config{URL: url, MaxConnections: 1, AllowPlaintext: true}.Validate(), url)
	}
}

func TestPlaintextToOtherMachinesIsRejected(t *testing.T) {
	for url, accepted := range map[string]bool{
		"postgres://u:secret@db/d":                                       false,
		"postgres://u:secret@db/d?sslmode=disable":                       false,
		"postgres://u:secret@db/d?sslmode=allow":                         false,
		"postgres://u:secret@db/d?sslmode=prefer":                        false,
		"postgres://u:secret@10.0.0.1/d":                                 false,
		"postgres://u:secret@127.0.0.1,db/d?sslmode=disable":             false,
		"postgres://u:secret@127.0.0.1/d?sslmode=disable&host=db":        false,
		"postgres://u:secret@db/d?sslmode=require":                       true,
		"postgres://u:secret@db/d?sslmode=verify-ca":                     true,
		"postgres://u:secret@db,db2/d?sslmode=verify-full":               true,
		"postgres://u:secret@[::1]:5433/d":                               true,
		"postgres://u:secret@localhost/d":                                true,
		"postgres://u:secret@127.0.0.1,localhost:5433/d?sslmode=disable": true,
		"postgres://u:secret@/d?host=/var/run/postgresql":                true,
		"postgres://u:secret@/d?host=/run/postgresql&sslmode=disable":    true,
		"postgres://u:secret@/d?host=/run/postgresql,db&sslmode=allow":   false,
	} {
		cfg := database.Config{URL: url, MaxConnections: 1}
		err := cfg.Validate()
		if accepted {
			require.NoError(t, err, url)
			continue
		}
		require.EqualError(t, err, "OPPORTUNITY_DATABASE_URL permits connections without TLS: "+
			"add sslmode=verify-full, or for development set OPPORTUNITY_ALLOW_PLAINTEXT_STORES=true", url)
		_, opened := database.Open(cfg, start(t))
		require.Equal(t, err, opened, url)
		cfg.AllowPlaintext = true
		require.NoError(t, cfg.Validate(), url)
	}
}

func TestReadOnlyAccessChangesNothing(t *testing.T) {
	tel := start(t)
	file := filepath.Join(t.TempDir(), "a.db")
	cfg := database.Config{URL: "sqlite://" + file, MaxConnections: 2}
	for _, access := range []database.Access{database.ReadOnly, database.Existing} {
		cfg.Access = access
		_, err := database.Open(cfg, tel)
		require.ErrorContains(t, err, "no database: stat "+file)
		require.NoFileExists(t, file)
	}
	cfg.Access = database.Full
	require.NoError(t, database.Migrate(t.Context(), cfg, tel, migrations))
	served := open(t, cfg.URL)
	require.NoError(t, served.Exec("INSERT INTO things VALUES ('a', 1)").Error)

	cfg.Access = database.ReadOnly
	db := openAs(t, cfg, tel)
	var n int
	require.NoError(t, db.Raw("SELECT count(*) FROM things").Scan(&n).Error)
	require.Equal(t, 1, n, "must see the row that another connection just wrote")
	require.ErrorContains(t, db.Exec("INSERT INTO things VALUES ('b', 2)").Error, "readonly")
}

func TestIndexesArePreferredUntilTheTransactionEnds(t *testing.T) {
	db := single(t, storetest.Postgres(t))
	require.NoError(t, db.Exec("CREATE TABLE things AS SELECT 'one' AS id").Error)
	require.NoError(t, db.Exec("CREATE INDEX things_id ON things (id)").Error)
	plan := func(tx *gorm.DB) (first string) {
		t.Helper()
		require.NoError(t, tx.Raw("EXPLAIN SELECT * FROM things WHERE id = 'one'").Row().Scan(&first))
		return first
	}
	require.Contains(t, plan(db.DB), "Seq Scan")
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		require.NoError(t, database.PreferIndexes(tx))
		require.NotContains(t, plan(tx), "Seq Scan")
		return nil
	}))
	require.Contains(t, plan(db.DB), "Seq Scan")
}

func TestProbeFindsADatabaseThatAcceptsNoWrites(t *testing.T) {
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		migrate(t, database.Config{URL: url})
		tel := start(t)
		db := openAs(t, database.Config{URL: url, MaxConnections: 1}, tel)
		require.NoError(t, db.Probe(t.Context()))
		require.Error(t, db.Exec("SELECT nonsense FROM nowhere").Error)
		require.NoError(t, db.Probe(t.Context()), "an invalid statement is no such failure")

		readOnly := map[string]string{database.Postgres: "SET default_transaction_read_only = on",
			database.SQLite: "PRAGMA query_only = 1"}[db.Dialect]
		require.NoError(t, db.Exec(readOnly).Error)
		require.Error(t, db.Exec("INSERT INTO things VALUES ('a', 1)").Error)
		require.ErrorContains(t, db.Probe(t.Context()), "database accepts no writes: ")
		require.NotZero(t, servicetest.Series(t, tel.Registry, "database_write_failures_total")[""])

		require.NoError(t, db.Close())
		other := open(t, url)
		require.NoError(t, other.Probe(t.Context()))
		require.NoError(t, other.Close())
		require.Error(t, other.Probe(t.Context()))
	})
}

// With SQLite, a full disk fails the commit and not the statements before it. The deferred trigger
// does that on Postgres.
func TestProbeFindsCommitsThatFail(t *testing.T) {
	url := storetest.Postgres(t)
	migrate(t, database.Config{URL: url})
	db := open(t, url)
	require.NoError(t, db.Exec(`CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no space left' USING ERRCODE = 'disk_full'; END $$;
		CREATE CONSTRAINT TRIGGER fill AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION fill()`).Error)
	require.Error(t, db.Transaction(func(tx *gorm.DB) error {
		require.NoError(t, tx.Exec("INSERT INTO things VALUES ('a', 1)").Error)
		return nil
	}))
	require.ErrorContains(t, db.Probe(t.Context()), "no space left")
}

// A transaction that holds the probed row for long is no failure.
func TestProbeIgnoresLocks(t *testing.T) {
	url := storetest.Postgres(t)
	migrate(t, database.Config{URL: url})
	db := open(t, url)
	require.NoError(t, db.Transaction(func(tx *gorm.DB) error {
		_, err := database.NextSequence(tx)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return db.Probe(ctx)
	}))
}

func TestErrorsNameTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "catalog.db")
	require.NoError(t, os.WriteFile(file,
		[]byte("not a database, but long enough to be taken for the header of one, whatever else it may be.........."),
		0o600))
	_, err := database.Open(database.Config{URL: "sqlite://" + file, MaxConnections: 1}, start(t))
	require.ErrorContains(t, err, file)
}
