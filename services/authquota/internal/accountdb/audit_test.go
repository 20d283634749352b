package accountdb_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/testkit"
	"opportunity.internal/services/authquota/migrations"
)

func record(t *testing.T, db testkit.DB) {
	t.Helper()
	require.NoError(t, db.Change(t.Context(), func(tx *accountdb.Tx) error { return tx.Record("ada", "account.suspend", "acc_1", nil) }))
}

func TestTheAuditLogIsAppendOnly(t *testing.T) {
	testkit.Schema.OnBothDatabases(t, func(t *testing.T, url string) {
		db := testkit.Open(t, url, time.Now)
		record(t, db)
		written := db.AuditLog(t)
		statements := []string{
			"UPDATE audit_log SET actor = 'nobody'", "UPDATE audit_log SET actor = 'nobody' WHERE id = 1",
			"DELETE FROM audit_log", "DELETE FROM audit_log WHERE id = 1",
		}
		if db.Dialect == database.Postgres {
			statements = append(statements, "TRUNCATE audit_log", "SET session_replication_role = replica; DELETE FROM audit_log",
				"INSERT INTO audit_log (id, at, actor, action, subject, detail) OVERRIDING SYSTEM VALUE VALUES (1, 0, 'nobody', '', '', '') "+
					"ON CONFLICT (id) DO UPDATE SET actor = 'nobody'")
		} else {
			const replace = "INSERT OR REPLACE INTO audit_log (id, at, actor, action, subject, detail) VALUES (1, 0, 'nobody', '', '', '')"
			statements = append(statements, replace)
			_, err := storetest.Plain(t, url).ExecContext(t.Context(), replace) // a connection that does not ask for recursive_triggers
			require.ErrorContains(t, err, "append-only")
		}
		for _, statement := range statements {
			require.ErrorContains(t, db.Exec(statement).Error, "append-only", statement)
		}
		require.Equal(t, written, db.AuditLog(t))
	})
}

func TestTheServingRoleCannotRewriteTheAuditLog(t *testing.T) {
	admin := storetest.Postgres(t)
	role, asRole := storetest.Role(t, admin)
	tel, err := telemetry.Start(t.Context(), "test", telemetry.Config{LogOutput: io.Discard})
	require.NoError(t, err)
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: admin, ServingRole: role, MaxConnections: 2}, tel, migrations.Files))
	db := testkit.Open(t, asRole, time.Now)
	record(t, db)
	for _, statement := range []string{
		"UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log", "TRUNCATE audit_log", "DROP TRIGGER audit_log_is_append_only ON audit_log",
	} {
		require.ErrorContains(t, db.Exec(statement).Error, "SQLSTATE 42501", "no right to %s", statement)
	}
}
