package database_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/storetest"
)

type word string

// thing has each kind of column.
type thing struct {
	ID    string `gorm:"primaryKey"`
	Word  word
	Count int
	At    *int64
	Note  *string
	Done  bool
}

// onTable runs a test on both dialects, with a table of things. stored returns its rows.
func onTable(t *testing.T, test func(t *testing.T, db *gorm.DB, stored func() []thing)) {
	t.Helper()
	storetest.OnBothDatabases(t, func(t *testing.T, url string) {
		db := open(t, url).DB
		require.NoError(t, db.Exec("CREATE TABLE things (id text PRIMARY KEY, word text, count bigint, at bigint, note "+
			"text, done boolean)").Error)
		test(t, db, func() (all []thing) {
			t.Helper()
			require.NoError(t, db.Order("id").Find(&all).Error)
			return all
		})
	})
}

func TestInsertMissingKeepsStoredRows(t *testing.T) {
	onTable(t, func(t *testing.T, db *gorm.DB, stored func() []thing) {
		require.NoError(t, database.InsertMissing(db, []thing{{ID: "a", Count: 1}}))
		require.NoError(t, database.InsertMissing(db,
			[]thing{{ID: "a", Count: 2}, {ID: "b", Count: 3}, {ID: "b", Count: 4}}))
		require.NoError(t, database.InsertMissing(db, []thing{}))
		require.Equal(t, []thing{{ID: "a", Count: 1}, {ID: "b", Count: 3}}, stored())
	})
}

func TestInsertStoresAndReplacesRowsOfEachKind(t *testing.T) {
	onTable(t, func(t *testing.T, db *gorm.DB, stored func() []thing) {
		rows := []*thing{{ID: "a", Word: "{x,\"y\"}", Count: 3, At: new(int64(-7)), Note: new("\\n"), Done: true}, {ID: "b"}}
		require.NoError(t, db.Transaction(func(tx *gorm.DB) error { return database.Insert(tx, rows, "") }))
		require.Error(t, database.Insert(db, rows[:1], ""), "the id exists")
		changed := thing{ID: "b", Note: new("")}
		require.NoError(t, database.Insert(db, []thing{changed}, "id"))
		require.NoError(t, database.Insert(db, []thing{}, "id"))
		require.Equal(t, []thing{*rows[0], changed}, stored())
	})
}

func TestInsertIfReplacesRowsForWhichTheConditionHolds(t *testing.T) {
	onTable(t, func(t *testing.T, db *gorm.DB, stored func() []thing) {
		save := func(rows ...thing) {
			require.NoError(t, database.InsertIf(db, rows, "id", "excluded.count > things.count"))
		}
		save(thing{ID: "a", Count: 2, Word: "second"}, thing{ID: "b", Count: 5})
		save(thing{ID: "a", Count: 1, Word: "first"}, thing{ID: "b", Count: 6, Done: true})
		require.Equal(t, []thing{{ID: "a", Count: 2, Word: "second"}, {ID: "b", Count: 6, Done: true}}, stored())
	})
}
