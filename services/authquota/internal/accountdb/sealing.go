package accountdb

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// Sealed is a column of sealed texts. Context binds a text to its row.
type Sealed struct {
	Table, ID, Column string
	Context           func(id string) string
}

// resealBatch limits the texts of one query.
const resealBatch = 1000

// Reseal seals everything in the columns under the newest encryption key that is under an older
// one, so that the older key can be removed. It skips concurrently changed values. The returned
// error has the number of texts that do not open because their key is missing.
func (db *DB) Reseal(ctx context.Context, columns ...Sealed) error {
	lost := 0
	for _, column := range columns {
		n, err := db.reseal(ctx, column)
		if err != nil {
			return database.Outage(err)
		}
		lost += n
	}
	if lost > 0 {
		return fmt.Errorf("%d sealed texts do not open: their encryption key is missing", lost)
	}
	return nil
}

func (db *DB) reseal(ctx context.Context, at Sealed) (lost int, err error) {
	for after := ""; ; {
		var rows []struct{ ID, Text string }
		err := db.WithContext(ctx).Table(at.Table).Select(at.ID+" AS id, "+at.Column+" AS text").
			Where(at.ID+" > ? AND "+at.Column+" <> '' AND substr("+at.Column+", 1, ?) <> ?", after, len(db.Box.Prefix()), db.Box.Prefix()).
			Order(at.ID).Limit(resealBatch).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return lost, err
		}
		for _, r := range rows {
			after = r.ID
			plain, err := db.Box.Open(r.Text, at.Context(r.ID))
			if err != nil {
				lost++
				continue
			}
			err = db.WithContext(ctx).Session(&gorm.Session{NewDB: true}).Table(at.Table).
				Where(at.ID+" = ? AND "+at.Column+" = ?", r.ID, r.Text).Update(at.Column, db.Box.Seal(plain, at.Context(r.ID))).Error
			if err != nil {
				return lost, err
			}
		}
	}
}
