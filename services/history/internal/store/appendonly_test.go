package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history/internal/store"
)

// changes are statements that change or remove recorded events.
var changes = []string{
	"UPDATE verification_events SET note = 'x'",
	"UPDATE verification_events SET sequence = sequence",
	"DELETE FROM verification_events",
	"DELETE FROM verification_events WHERE sequence = 1",
}

const upsert = `INSERT INTO verification_events SELECT * FROM verification_events WHERE sequence = 1
	ON CONFLICT (sequence) DO UPDATE SET note = 'x'`

func (s testStore) rejects(t *testing.T, why string, statements ...string) {
	t.Helper()
	s.publish(t, "a")
	before := s.events(t, "a")
	for _, statement := range statements {
		err := s.db.WithContext(t.Context()).Exec(statement).Error
		require.Error(t, err, statement)
		require.Contains(t, err.Error(), why, statement)
	}
	require.Empty(t, cmp.Diff(before, s.events(t, "a")))
	require.NotZero(t, s.intact(t))
}

func TestSQLiteRejectsEveryChangeOfAnEvent(t *testing.T) {
	s := open(t, schema.SQLite(t))
	s.add(t, review("a", 1, ""))
	s.rejects(t, "append-only", append(changes,
		"INSERT OR REPLACE INTO verification_events SELECT * FROM verification_events",
		"REPLACE INTO verification_events SELECT * FROM verification_events",
		"UPDATE OR REPLACE verification_events SET note = 'x'",
		upsert)...)
}

// REPLACE does not fire delete triggers on a connection without the pragma recursive_triggers.
func TestSQLiteRejectsReplaceWithoutPragma(t *testing.T) {
	url := schema.SQLite(t)
	s := open(t, url)
	s.add(t, review("a", 1, ""), review("a", 2, ""))
	s.publish(t, "a")
	before, plain := s.events(t, "a"), storetest.Plain(t, url)
	const columns = "slug, checked_at, check_type, outcome, source_urls, facts, 'x', actor, recorded_at"
	for _, row := range []string{
		"sequence, 'x', " + columns + ", 'x', evidence",
		"99, id, " + columns + ", 'x', evidence",
		"99, 'x', " + columns + ", content_hash, evidence",
	} {
		for _, verb := range []string{"REPLACE", "INSERT OR REPLACE"} {
			_, err := plain.ExecContext(t.Context(),
				verb+" INTO verification_events SELECT "+row+" FROM verification_events WHERE sequence = 1")
			require.ErrorContains(t, err, "append-only", row)
		}
	}
	require.Empty(t, cmp.Diff(before, s.events(t, "a")))
}

func TestPostgresRejectsEveryChangeOfAnEventByOwner(t *testing.T) {
	s := open(t, schema.Postgres(t))
	s.add(t, review("a", 1, ""))
	s.rejects(t, "append-only", append(changes, upsert, "TRUNCATE verification_events",
		"TRUNCATE verification_events, summaries CASCADE",
		"SET session_replication_role = replica; DELETE FROM verification_events")...)
}

func TestPostgresServingRoleCanOnlyReadAndAppend(t *testing.T) {
	s := serving(t)
	s.add(t, review("a", 1, ""), review("a", 2, ""))
	s.add(t, link("a", 3, api.OutcomeReachable))
	s.rejects(t, "permission denied", append(changes, upsert, "TRUNCATE verification_events",
		"UPDATE goose_db_version SET version_id = 9")...)
	s.rejects(t, "must be owner", "ALTER TABLE verification_events DISABLE TRIGGER ALL",
		"DROP TABLE verification_events",
		"DROP TRIGGER append_only_rows ON verification_events")
}

func TestLogIsAppendOnly(t *testing.T) {
	rejected := []string{
		"UPDATE log_checkpoints SET note = 'x'", "UPDATE log_checkpoints SET size = 9", "DELETE FROM log_checkpoints",
		"UPDATE log_cosignatures SET signature = 'x'", "DELETE FROM log_cosignatures",
	}
	filled := func(t *testing.T, s testStore) {
		t.Helper()
		fill(t, s, 6, 15)
		require.NoError(t, s.SaveCosignature(t.Context(), store.Cosignature{Origin: logName, Size: 15,
			Witness: "witness.example", Signature: "AAAA"}))
		require.True(t, s.verify(t).Fits)
	}
	onBoth(t, func(t *testing.T, s testStore) {
		filled(t, s)
		for _, statement := range []string{"UPDATE log_tiles SET hashes = substr(hashes, 2)", "DELETE FROM log_tiles"} {
			require.ErrorContains(t, s.db.WithContext(t.Context()).Exec(statement).Error, "only grows", statement)
		}
		statements := append([]string{}, rejected...)
		if s.db.Dialect == database.SQLite {
			plain := storetest.Plain(t, s.url)
			// without recursive_triggers
			_, err := plain.ExecContext(t.Context(), "REPLACE INTO log_checkpoints SELECT * FROM log_checkpoints")
			require.ErrorContains(t, err, "append-only")
		} else {
			statements = append(statements, "TRUNCATE log_checkpoints CASCADE",
				"SET session_replication_role = replica; DELETE FROM log_cosignatures")
		}
		for _, statement := range statements {
			require.ErrorContains(t, s.db.WithContext(t.Context()).Exec(statement).Error, "append-only", statement)
		}
		require.True(t, s.verify(t).Fits)
	})
	s := serving(t)
	filled(t, s) // the serving role must be able to sign and verify
	for _, statement := range append(rejected, "TRUNCATE log_checkpoints CASCADE") {
		require.ErrorContains(t, s.db.WithContext(t.Context()).Exec(statement).Error, "permission denied", statement)
	}
}
