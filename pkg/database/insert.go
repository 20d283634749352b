package database

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// insertBatch is the number of rows in one statement on SQLite. Its driver looks for each parameter
// among all of them, so that 500 rows took twice as long for an import.
const insertBatch = 50

// Insert inserts rows, which are gorm models of strings, integers, booleans and pointers to them.
// If key is not empty, it names the column of the primary key, and rows replace stored ones with
// the same key; no two rows may have the same.
//
// On Postgres, it sends each column as one array. A statement with a parameter for each value takes
// several times the CPU time of both sides.
func Insert[T any](tx *gorm.DB, rows []T, key string) error {
	if key == "" {
		return insert(tx, rows, clause.OnConflict{})
	}
	return insert(tx, rows, replacing(key))
}

// InsertIf is like Insert with a key, but a row replaces a stored one only if the condition is true
// of both: the row is excluded, the stored one has the name of its table.
func InsertIf[T any](tx *gorm.DB, rows []T, key, condition string) error {
	conflict := replacing(key)
	conflict.Where.Exprs = []clause.Expression{clause.Expr{SQL: condition}}
	return insert(tx, rows, conflict)
}

func replacing(key string) clause.OnConflict {
	return clause.OnConflict{Columns: []clause.Column{{Name: key}}, UpdateAll: true}
}

// InsertMissing is like Insert, but skips rows whose primary key is stored already.
func InsertMissing[T any](tx *gorm.DB, rows []T) error {
	return insert(tx, rows, clause.OnConflict{DoNothing: true})
}

func insert[T any](tx *gorm.DB, rows []T, conflict clause.OnConflict) error {
	if len(rows) == 0 {
		return nil
	}
	if tx.Name() != Postgres {
		if conflict.DoNothing || conflict.UpdateAll {
			tx = tx.Clauses(conflict)
		}
		return tx.CreateInBatches(rows, insertBatch).Error
	}
	model := &gorm.Statement{DB: tx}
	if err := model.Parse(new(T)); err != nil {
		return err
	}
	var types []string
	var values []any
	names := model.Schema.DBNames
	for _, name := range names {
		column, kind := columnOf(model.Schema.FieldsByDBName[name], len(rows))
		for i := range rows {
			column.set(i, reflect.Indirect(reflect.ValueOf(&rows[i]).Elem()))
		}
		types, values = append(types, "?::"+kind+"[]"), append(values, column)
	}
	statement := fmt.Sprintf("INSERT INTO %s (%s) SELECT * FROM unnest(%s)", model.Schema.Table, strings.Join(names, ", "),
		strings.Join(types, ", "))
	if conflict.UpdateAll {
		conflict.DoUpdates = clause.AssignmentColumns(names)
	}
	if conflict.DoNothing || conflict.UpdateAll {
		statement, values = statement+" ?", append(values, conflict)
	}
	return tx.Exec(statement, values...).Error
}

// column holds the values of one column. It is a driver.Valuer so that gorm passes the array on as
// one parameter.
type column struct {
	field  *schema.Field
	values reflect.Value // a slice
}

// kinds are the types of columns by the kind of their Go type.
var kinds = map[reflect.Kind]struct {
	name string
	of   reflect.Type
}{
	reflect.String: {"text", reflect.TypeFor[string]()},
	reflect.Int:    {"bigint", reflect.TypeFor[int64]()},
	reflect.Int64:  {"bigint", reflect.TypeFor[int64]()},
	reflect.Bool:   {"boolean", reflect.TypeFor[bool]()},
	reflect.Slice:  {"bytea", reflect.TypeFor[[]byte]()},
}

func columnOf(f *schema.Field, n int) (c column, name string) {
	kind, known := kinds[f.IndirectFieldType.Kind()]
	if !known {
		panic("database: no array for " + f.FieldType.String())
	}
	of := kind.of
	if f.FieldType.Kind() == reflect.Pointer {
		of = reflect.PointerTo(of)
	}
	return column{f, reflect.MakeSlice(reflect.SliceOf(of), n, n)}, kind.name
}

func (c column) set(i int, row reflect.Value) {
	to := c.values.Index(i)
	to.Set(row.FieldByIndex(c.field.StructField.Index).Convert(to.Type()))
}

// Value implements driver.Valuer.
func (c column) Value() (driver.Value, error) { return c.values.Interface(), nil }
