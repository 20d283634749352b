package store

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
)

// sealed is a column of sealed texts.
type sealed struct {
	table, id, column string
	context           func(id string) string
}

var allSealed = []sealed{
	{"people", "account_id", "totp_seed", seedContext},
	{"sessions", "id", "new_seed", newSeedContext},
	{"mails", "id", "letter", sealedMail},
}

// Reseal seals everything under the newest encryption key that is under an older one, so that the older key can be removed. It
// skips concurrently changed values. The returned error has the number of texts that do not open because their key is missing.
func (s *Store) Reseal(ctx context.Context) error {
	lost := 0
	for _, column := range allSealed {
		n, err := s.reseal(ctx, column)
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

func (s *Store) reseal(ctx context.Context, at sealed) (lost int, err error) {
	for after := ""; ; {
		var rows []struct{ ID, Text string }
		err := s.db.WithContext(ctx).Table(at.table).Select(at.id+" AS id, "+at.column+" AS text").
			Where(at.id+" > ? AND "+at.column+" <> '' AND substr("+at.column+", 1, ?) <> ?", after, len(s.box.Prefix()), s.box.Prefix()).
			Order(at.id).Limit(batch).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return lost, err
		}
		for _, r := range rows {
			after = r.ID
			plain, err := s.box.Open(r.Text, at.context(r.ID))
			if err != nil {
				lost++
				continue
			}
			err = s.db.WithContext(ctx).Session(&gorm.Session{NewDB: true}).Table(at.table).
				Where(at.id+" = ? AND "+at.column+" = ?", r.ID, r.Text).Update(at.column, s.box.Seal(plain, at.context(r.ID))).Error
			if err != nil {
				return lost, err
			}
		}
	}
}
