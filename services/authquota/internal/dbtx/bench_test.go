package dbtx_test

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/authquotatest"
	"opportunity.internal/services/authquota/internal/dbtx"
	"opportunity.internal/services/authquota/internal/journal"
)

// BenchmarkSuspend measures what the journal adds to a change of one row: the line in the database, on a stream, and in a file.
func BenchmarkSuspend(b *testing.B) {
	file, err := journal.OpenFile(filepath.Join(b.TempDir(), "journal.jsonl"), func(journal.Line) bool { return true })
	require.NoError(b, err)
	for dialect, create := range map[string]func(testing.TB) string{"Postgres": authquotatest.Schema.Postgres, "SQLite": authquotatest.Schema.SQLite} {
		db := authquotatest.Open(b, create(b), time.Now)
		var id string
		require.NoError(b, db.Change(b.Context(), func(tx *dbtx.Tx) error {
			a, err := account.Create(tx, api.Free)
			id = a.ID
			return err
		}))
		for _, c := range []struct {
			name    string
			changed bool
			journal dbtx.Journal
		}{{"without", false, nil}, {"database", true, nil}, {"stream", true, journal.NewStream(io.Discard)}, {"file", true, file}} {
			b.Run(dialect+"/"+c.name, func(b *testing.B) {
				db.Journal = c.journal
				b.ReportAllocs()
				for b.Loop() {
					err := db.Change(b.Context(), func(tx *dbtx.Tx) error {
						if err := tx.Exec("UPDATE accounts SET suspended_at = ? WHERE id = ?", database.Micros(tx.Now), id).Error; err != nil {
							return err
						}
						if c.changed {
							tx.Changed("accounts", "id", []string{id}, "suspended_at")
						}
						return tx.Record("ann", "account.suspend", id, map[string]any{})
					})
					require.NoError(b, err)
				}
			})
		}
	}
}
