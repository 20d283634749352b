package requestlog

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/dbtx"
)

// Store stores the request log. It reads names and accounts of keys from their table.
type Store struct{ db *dbtx.DB }

// NewStore returns a Store.
func NewStore(db *dbtx.DB) *Store { return &Store{db} }

type row struct {
	RequestID string `gorm:"primaryKey"`
	KeyID     string
	At        int64
	Route     string
	Params    string
	Status    int
	Code      string
	Duration  int64
}

func (row) TableName() string { return "request_log" }

// Add adds requests, except those that were added before.
func (s *Store) Add(ctx context.Context, requests []api.LoggedRequest) error {
	rows := make([]row, len(requests))
	for i, r := range requests {
		rows[i] = row{r.ID, r.Key, database.Micros(r.At), r.Route, r.Params, r.Status, r.Code, r.Duration.Microseconds()}
	}
	return database.Outage(database.InsertMissing(s.db.WithContext(ctx), rows))
}

// Recent returns the latest api.RequestLogSize requests with the keys of an account, newest first.
func (s *Store) Recent(ctx context.Context, accountID string) ([]Request, error) {
	var rows []struct {
		Row row `gorm:"embedded"`

		Name, Prefix, LastFour string
	}
	err := s.db.WithContext(ctx).Raw(`SELECT r.*, k.name, k.prefix, k.last_four FROM request_log r JOIN api_keys k ON k.id = r.key_id
		WHERE k.account_id = ? AND r.at > ? ORDER BY r.at DESC, r.request_id LIMIT ?`,
		accountID, database.Micros(s.db.Now().Add(-api.RequestLogDuration)), api.RequestLogSize).Scan(&rows).Error
	recent := make([]Request, len(rows))
	for i, r := range rows {
		recent[i] = Request{
			LoggedRequest: api.LoggedRequest{
				ID: r.Row.RequestID, Key: r.Row.KeyID, At: database.FromMicros(r.Row.At), Route: r.Row.Route, Params: r.Row.Params,
				Status: r.Row.Status, Code: r.Row.Code, Duration: time.Duration(r.Row.Duration) * time.Microsecond,
			},
			KeyName: r.Name, KeyShown: r.Prefix + "…" + r.LastFour,
		}
	}
	return recent, database.Outage(err)
}

// Prune deletes the requests that are past their retention, and those of a key beyond the latest api.RequestLogSize.
func (s *Store) Prune(ctx context.Context) error {
	db := s.db.WithContext(ctx)
	err := db.Where("at <= ?", database.Micros(s.db.Now().Add(-api.RequestLogDuration))).Delete(&row{}).Error
	var over []string
	if err == nil {
		err = db.Raw("SELECT key_id FROM request_log GROUP BY key_id HAVING count(*) > ? ORDER BY key_id", api.RequestLogSize).Scan(&over).Error
	}
	for _, key := range over {
		if err == nil {
			err = db.Exec("DELETE FROM request_log WHERE key_id = ? AND at <= (SELECT at FROM request_log WHERE key_id = ? ORDER BY at DESC LIMIT 1 OFFSET ?)",
				key, key, api.RequestLogSize).Error
		}
	}
	return database.Outage(err)
}
