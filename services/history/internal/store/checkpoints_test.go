package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/history/internal/audit"
	"opportunity.internal/services/history/migrations"
)

// The notary signs only events that continue the last checkpoint.
func TestTamperedHistoryIsNotSigned(t *testing.T) {
	for name, statement := range map[string]string{
		"edited":            "UPDATE verification_events SET note = 'x' WHERE sequence = 8",
		"removed":           "DELETE FROM verification_events WHERE sequence = 8",
		"removed beginning": "DELETE FROM verification_events WHERE sequence = 7",
		"frontier":          "UPDATE checkpoints SET frontier = ''",
		"note":              "UPDATE checkpoints SET note = replace(note, 'number 1', 'number 2')",
		"heads":             "UPDATE checkpoint_heads SET hash = 'x' WHERE slug = 'b'",
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s testStore) {
				fill(t, s, 6)
				s.asSuperuser(t, statement)
				_, made, err := s.notary(keys(t, seed), recorded).Make(t.Context(), "")
				require.Error(t, err)
				require.False(t, made)
				_, made, err = s.notary(keys(t, seed), recorded).Make(t.Context(), "")
				require.Error(t, err)
				require.False(t, made)
				last, _, err := s.LastCheckpoint(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, last.Number)
			})
		})
	}
}

func TestCheckpointsAreAppendOnly(t *testing.T) {
	rejected := []string{
		"UPDATE checkpoints SET note = 'x'", "DELETE FROM checkpoints", "UPDATE checkpoint_heads SET events = 1", "DELETE FROM checkpoint_heads",
		"UPDATE checkpoint_leaves SET first = first", "DELETE FROM checkpoint_leaves",
	}
	onBoth(t, func(t *testing.T, s testStore) {
		fill(t, s, 15)
		statements := append([]string{}, rejected...)
		if s.db.Dialect == database.SQLite {
			statements = append(statements, "REPLACE INTO checkpoint_leaves SELECT * FROM checkpoint_leaves")
			_, saved, err := s.notary(keys(t, seed), recorded).Make(t.Context(), "2026-11-20") // a row whose day a replacement could take
			require.NoError(t, err)
			require.True(t, saved)
			plain := storetest.Plain(t, s.url)
			for _, statement := range []string{
				"REPLACE INTO checkpoints SELECT * FROM checkpoints",
				"REPLACE INTO checkpoints SELECT number + 9, day, made_at, size, 'x', consistency, frontier FROM checkpoints WHERE day <> ''",
				"REPLACE INTO checkpoint_heads SELECT * FROM checkpoint_heads",
				"REPLACE INTO checkpoint_leaves SELECT * FROM checkpoint_leaves",
			} {
				_, err := plain.ExecContext(t.Context(), statement) // a connection without recursive_triggers
				require.ErrorContains(t, err, "append-only", statement)
			}
		} else {
			statements = append(statements, "TRUNCATE checkpoint_leaves", "TRUNCATE checkpoints CASCADE",
				"SET session_replication_role = replica; DELETE FROM checkpoint_leaves")
		}
		for _, statement := range statements {
			require.ErrorContains(t, s.db.WithContext(t.Context()).Exec(statement).Error, "append-only", statement)
		}
		require.True(t, s.audit(t, keys(t, seed)).Fits)
	})
	owner := storetest.Postgres(t)
	role, asRole := storetest.Role(t, owner)
	require.NoError(t, database.Migrate(t.Context(), database.Config{URL: owner, MaxConnections: 2, ServingRole: role}, silent(t), migrations.Files))
	s := open(t, asRole)
	fill(t, s, 15)
	require.True(t, s.audit(t, keys(t, seed)).Fits, "the serving role must be able to sign and verify")
	for _, statement := range append(rejected, "TRUNCATE checkpoint_leaves") {
		require.ErrorContains(t, s.db.WithContext(t.Context()).Exec(statement).Error, "permission denied", statement)
	}
}

// Appends do not wait for a running audit and do not affect it.
func TestAppendsContinueDuringAudit(t *testing.T) {
	onBoth(t, func(t *testing.T, s testStore) {
		fill(t, s, 6, 15)
		k := keys(t, seed)
		require.NoError(t, s.Audit(t.Context(), func(source audit.Source) error {
			_, _, err := source.Totals() // takes the snapshot
			require.NoError(t, err)
			s.add(t, review("a", 9, "meanwhile"))
			s.sign(t, k)
			report, err := audit.Run(source, k, nil, nil)
			require.True(t, report.Fits, "%+v", report.Findings)
			require.EqualValues(t, 15, report.Events)
			return err
		}))
		require.EqualValues(t, 16, s.audit(t, k).Events)
	})
}
