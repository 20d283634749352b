package opportunity

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// SQLiteCopy is a Store in an SQLite database. Its view opportunities has a column for each value,
// and its view eligibility a row for each country and province whose residents are eligible.
type SQLiteCopy struct{ db *sql.DB }

// NewSQLiteCopy returns the copy in a database, and creates its tables and views. The program
// chooses the driver: any SQLite driver of database/sql works.
func NewSQLiteCopy(ctx context.Context, db *sql.DB) (*SQLiteCopy, error) {
	_, err := db.ExecContext(ctx, schema)
	return &SQLiteCopy{db}, err
}

// State returns the progress of the copy.
func (s *SQLiteCopy) State(ctx context.Context) (state SyncState, err error) {
	var text string
	err = s.db.QueryRowContext(ctx, "SELECT state FROM sync_state WHERE sdk = 'go'").Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return state, nil
	}
	if err != nil {
		return state, err
	}
	return state, json.Unmarshal([]byte(text), &state)
}

// IDs returns the ids of the copied records.
func (s *SQLiteCopy) IDs(ctx context.Context) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM records")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Apply changes records and state in one transaction.
func (s *SQLiteCopy) Apply(ctx context.Context, changes Changes) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, record := range changes.Put {
		if err := put(ctx, tx, "INSERT OR REPLACE INTO records (id, record) VALUES (?, ?)", record.ID,
			record); err != nil {
			return err
		}
	}
	for _, id := range changes.Remove {
		if _, err := tx.ExecContext(ctx, "DELETE FROM records WHERE id = ?", id); err != nil {
			return err
		}
	}
	if err := put(ctx, tx, "INSERT OR REPLACE INTO sync_state (sdk, state) VALUES (?, ?)", "go",
		changes.State); err != nil {
		return err
	}
	return tx.Commit()
}

func put(ctx context.Context, tx *sql.Tx, statement, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statement, key, string(text))
	return err
}
