package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/listingfile"
)

// ErrNotAsked is the error of Withhold before SaveWithheld.
var ErrNotAsked = errors.New("the history has not said yet which records were withdrawn since the backup: " +
	"let history and catalog run, and repeat this")

// SaveWithheld stores the ids of the listings that are not public, as the history knows them, for Withhold. The database was set back.
func (s *Store) SaveWithheld(ctx context.Context, ids []string) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return database.Outage(s.db.WithContext(ctx).Exec(
		"INSERT INTO withheld (id, listings) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET listings = excluded.listings", string(text)).Error)
}

// Withhold withdraws the public listings among those of SaveWithheld, and returns their ids. It can be repeated until EndWithheld.
func (s *Store) Withhold(ctx context.Context, actor string) (ids []string, err error) {
	var stored []string
	if err := s.db.WithContext(ctx).Raw("SELECT listings FROM withheld").Scan(&stored).Error; err != nil {
		return nil, database.Outage(err)
	}
	if len(stored) == 0 {
		return nil, ErrNotAsked
	}
	var known []string
	if err := json.Unmarshal([]byte(stored[0]), &known); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(known, batch) {
		var public []string
		if err := s.db.WithContext(ctx).Raw("SELECT id FROM listings WHERE visibility = ? AND id IN ? ORDER BY id", listingfile.Published, part).
			Scan(&public).Error; err != nil {
			return nil, database.Outage(err)
		}
		ids = append(ids, public...)
	}
	if len(ids) > 0 {
		_, err = s.Withdraw(ctx, actor, ids, "withdrawn after the backup that was restored")
	}
	return ids, err
}

// EndWithheld forgets what SaveWithheld stored.
func (s *Store) EndWithheld(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).Exec("DELETE FROM withheld").Error)
}
