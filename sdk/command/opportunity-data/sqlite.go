package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/glebarez/go-sqlite" // the driver "sqlite"

	"opportunity.internal/sdk/go/opportunity"
)

// sqlite is a Store in an SQLite database.
type sqlite struct{ db *sql.DB }

// openSQLite opens the copy in a database, which may not exist yet.
func openSQLite(ctx context.Context, file string) (sqlite, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return sqlite{}, err
	}
	// A URI, so that no character of the name has a meaning of its own (sqlite.org/uri.html).
	uri := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(file), "/"), RawQuery: "_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return sqlite{}, err
	}
	_, err = db.ExecContext(ctx, schema)
	return sqlite{db}, err
}

// State returns the progress of the copy.
func (s sqlite) State(ctx context.Context) (state opportunity.SyncState, err error) {
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
func (s sqlite) IDs(ctx context.Context) ([]string, error) {
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
func (s sqlite) Apply(ctx context.Context, changes opportunity.Changes) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, record := range changes.Put {
		if err := put(ctx, tx, "INSERT OR REPLACE INTO records (id, record) VALUES (?, ?)", record.ID, record); err != nil {
			return err
		}
	}
	for _, id := range changes.Remove {
		if _, err := tx.ExecContext(ctx, "DELETE FROM records WHERE id = ?", id); err != nil {
			return err
		}
	}
	if err := put(ctx, tx, "INSERT OR REPLACE INTO sync_state (sdk, state) VALUES (?, ?)", "go", changes.State); err != nil {
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
