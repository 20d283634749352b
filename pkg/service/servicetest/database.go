package servicetest

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
)

func quiet() (*telemetry.Telemetry, error) {
	return telemetry.Start(context.Background(), "test", telemetry.Config{LogOutput: io.Discard})
}

// NewSchema returns the schema of the migrations of a service.
func NewSchema(migrations fs.FS) *storetest.Schema {
	return storetest.NewSchema(func(url string) error {
		tel, err := quiet()
		if err != nil {
			return err
		}
		return database.Migrate(context.Background(), database.Config{URL: url, MaxConnections: 2}, tel, migrations)
	})
}

// OpenDatabase opens a database. It is closed after the test.
func OpenDatabase(t testing.TB, url string) *database.DB {
	t.Helper()
	tel := storetest.Must(quiet())(t)
	db := storetest.Must(database.Open(database.Config{URL: url, MaxConnections: 4}, tel))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Crash makes the statements of an operation on a table fail, such as "INSERT ON claims", until the
// returned function is called: the transaction has the effect of one whose process is killed then.
func Crash(t testing.TB, url, operation string) (end func()) {
	t.Helper()
	db := OpenDatabase(t, url)
	statements := []string{"CREATE TRIGGER crash BEFORE " + operation + " BEGIN SELECT RAISE(ABORT, 'crash'); END"}
	table := operation[strings.LastIndex(operation, " ")+1:]
	undo := "DROP TRIGGER crash"
	if db.Dialect == database.Postgres {
		statements = []string{
			"CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'crash'; END $$",
			"CREATE TRIGGER crash BEFORE " + operation + " FOR EACH ROW EXECUTE FUNCTION crash()",
		}
		undo = "DROP TRIGGER crash ON " + table + "; DROP FUNCTION crash()"
	}
	for _, s := range statements {
		require.NoError(t, db.Exec(s).Error)
	}
	return func() { require.NoError(t, db.Exec(undo).Error) }
}
