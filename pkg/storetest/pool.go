package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// maxSize is the size of tables and indexes, in bytes, above which a database is dropped instead of emptied.
const maxSize = 8 << 20

// pool has the migrated Postgres databases of a test program that no test uses now. To create a database and to connect to it costs more
// processor time than most tests, so the next test gets the database of an earlier one with its server processes.
type pool struct {
	mu   sync.Mutex
	free []*pooled
}

// pooled is a database of a pool. Tests reach it through a relay, which keeps connections open.
type pooled struct {
	*relay

	name   string
	admin  *pgx.Conn
	schema string // catalog of the new database
	reset  string // statements that restore its rows
}

// inUse has the databases that tests use, by the address of their relay.
var inUse sync.Map

// take returns the URL of a database for a test, and returns it to the pool after the test.
func (p *pool) take(t testing.TB, template string) string {
	t.Helper()
	p.mu.Lock()
	var d *pooled
	if n := len(p.free); n > 0 {
		d, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	server, err := url.Parse(os.Getenv(PostgresVariable))
	require.NoError(t, err)
	if d == nil {
		d, err = newPooled(server, template)
		require.NoError(t, err)
	}
	u := *server
	u.Path = "/" + d.name
	u.Host, err = d.listen()
	require.NoError(t, err)
	inUse.Store(u.Host, d)
	t.Cleanup(func() {
		inUse.Delete(u.Host)
		d.stop()
		if d.restore() != nil {
			require.NoError(t, d.drop())
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, d)
	})
	return u.String()
}

func newPooled(server *url.URL, template string) (*pooled, error) {
	d := &pooled{name: fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1)), relay: &relay{server: server.Host}}
	if err := administer(server.String(), "CREATE DATABASE "+d.name+" TEMPLATE "+template+" STRATEGY FILE_COPY"); err != nil {
		return nil, err
	}
	u := *server
	u.Path = "/" + d.name
	var err error
	if d.admin, err = pgx.Connect(context.Background(), u.String()); err != nil {
		return nil, err
	}
	if d.schema, err = d.catalog(); err != nil {
		return nil, err
	}
	d.reset, err = d.statements()
	return d, err
}

// drop drops the database, for example because a test changed its tables.
func (d *pooled) drop() error {
	d.disconnect()
	return administer(os.Getenv(PostgresVariable), "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}

// disconnect ends the connections that no test uses, and makes the database one that is not used again.
func (d *pooled) disconnect() {
	d.closeIdle()
	if d.admin != nil {
		_ = d.admin.Close(context.Background())
		d.admin = nil
	}
}

// restore restores the rows of the new database. It returns an error if something else changed.
func (d *pooled) restore() error {
	ctx := context.Background()
	if d.admin == nil {
		return errors.New("the database is replaced")
	}
	// A statement whose client is gone may still run.
	const end = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND NOT pid = ANY($1)`
	for others := 1; others > 0; {
		if err := d.admin.QueryRow(ctx, end, d.idlePIDs()).Scan(&others); err != nil {
			return err
		}
	}
	schema, err := d.catalog()
	if err != nil {
		return err
	}
	if schema != d.schema {
		return errors.New("a test changed the schema")
	}
	_, err = d.admin.Exec(ctx, d.reset)
	return err
}

// catalog returns a text that changes with the tables, functions, triggers and rights, and if the tables get large.
func (d *pooled) catalog() (state string, err error) {
	err = d.admin.QueryRow(context.Background(), `SELECT concat_ws(' ',
		(SELECT md5(string_agg(concat(oid, relname, relacl), ',' ORDER BY oid)) FROM pg_class WHERE oid >= 16384),
		(SELECT md5(string_agg(concat(oid, tgname, tgenabled), ',' ORDER BY oid)) FROM pg_trigger),
		(SELECT concat(count(*), ' ', max(xmin::text::bigint)) FROM pg_attribute),
		(SELECT concat(count(*), ' ', max(xmin::text::bigint)) FROM pg_proc),
		(SELECT concat(count(*), ' ', max(xmin::text::bigint)) FROM pg_namespace),
		(SELECT sum(pg_total_relation_size(oid)) > $1 FROM pg_class WHERE relkind = 'r' AND oid >= 16384))`, maxSize).Scan(&state)
	return state, err
}

// statements returns the statements that restore the rows of a new database, including those that migrations inserted. As a replica, the
// server ignores foreign keys, and triggers except those that keep tables append-only.
func (d *pooled) statements() (string, error) {
	ctx, reset := context.Background(), "SET session_replication_role = replica;"
	rows, err := d.admin.Query(ctx, `SELECT oid::regclass::text AS name,
		(SELECT string_agg(format('ALTER TABLE %s DISABLE TRIGGER %I;', tgrelid::regclass, tgname), '') FROM pg_trigger WHERE tgrelid = c.oid AND tgenabled = 'A') AS disable,
		(SELECT string_agg(format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;', tgrelid::regclass, tgname), '') FROM pg_trigger WHERE tgrelid = c.oid AND tgenabled = 'A') AS enable
		FROM pg_class c WHERE relkind = 'r' AND oid >= 16384`)
	if err != nil {
		return "", err
	}
	type table struct {
		Name            string
		Disable, Enable *string
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[table])
	if err != nil {
		return "", err
	}
	for _, t := range tables {
		var content *string
		if err := d.admin.QueryRow(ctx, "SELECT json_agg(t)::text FROM "+t.Name+" t").Scan(&content); err != nil {
			return "", err
		}
		empty := "DELETE FROM " + t.Name + ";"
		if t.Disable != nil {
			empty = "DO $$ BEGIN IF EXISTS (SELECT FROM " + t.Name + ") THEN " + *t.Disable + empty + *t.Enable + " END IF; END $$;"
		}
		reset += empty
		if content != nil {
			reset += "INSERT INTO " + t.Name + " OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::" + t.Name + ", " + quote(*content) + ");"
		}
	}
	rows, err = d.admin.Query(ctx, `SELECT format('SELECT setval(%L, %s, %L);', s.seqrelid::regclass,
		coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart), pg_sequence_last_value(s.seqrelid) IS NOT NULL) FROM pg_sequence s`)
	if err != nil {
		return "", err
	}
	sequences, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, s := range sequences {
		reset += s
	}
	return reset, err
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
