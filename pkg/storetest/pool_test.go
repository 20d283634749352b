package storetest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// Each test gets the same rows, whatever earlier tests did, and a database whose tables a test changed is not used again.
func TestDatabaseIsNewForEachTest(t *testing.T) {
	schema := storetest.NewSchema(func(url string) error {
		db, err := sql.Open("pgx", url)
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(context.Background(), `CREATE TABLE things (id bigserial PRIMARY KEY, name text, content bytea);
			INSERT INTO things (name, content) VALUES ('it''s \ there', '\x00ff'), (NULL, NULL)`)
		return err
	})
	names := map[string]bool{}
	for _, statement := range []string{
		"INSERT INTO things (name) VALUES ('new')", "DELETE FROM things", "UPDATE things SET name = 'changed'", "SET search_path = elsewhere",
		"BEGIN; LOCK TABLE things", "PREPARE one AS SELECT 1", "DROP TABLE things", "CREATE TABLE others (id text)", "TRUNCATE things RESTART IDENTITY", "SELECT 1",
	} {
		t.Run(statement, func(t *testing.T) {
			db, err := sql.Open("pgx", schema.Postgres(t))
			require.NoError(t, err)
			defer db.Close()
			var database, rows string
			var next int
			const all = "SELECT current_database(), (SELECT string_agg(concat(id, name, content), ',' ORDER BY id) FROM things), nextval('things_id_seq')"
			require.NoError(t, db.QueryRowContext(t.Context(), all).Scan(&database, &rows, &next))
			require.Equal(t, `1it's \ there\x00ff,2`, rows)
			require.Equal(t, 3, next)
			names[database] = true
			_, err = db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		})
	}
	require.Len(t, names, 3, "one database for all, and a new one after each of two changes to its tables")
}
