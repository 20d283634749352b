package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Schema creates migrated databases. It migrates one database of each dialect and copies it,
// because a migration takes longer than most tests. The Postgres database that it copies stays on
// the server.
type Schema struct {
	migrate  func(url string) error
	postgres func() (template string, err error)
	sqlite   func() (file []byte, err error)
}

// NewSchema returns a Schema. migrate migrates an empty database.
func NewSchema(migrate func(url string) error) *Schema {
	s := &Schema{migrate: migrate}
	s.postgres, s.sqlite = sync.OnceValues(s.migratePostgres), sync.OnceValues(s.migrateSQLite)
	return s
}

func (s *Schema) migratePostgres() (string, error) {
	server, name := os.Getenv(PostgresVariable), fmt.Sprintf("template_%d_%d", os.Getpid(), databases.Add(1))
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if err := administer(server, statement); err != nil {
			return "", err
		}
	}
	url, err := on(server, name)
	if err != nil {
		return "", err
	}
	return name, s.migrate(url)
}

func (s *Schema) migrateSQLite() ([]byte, error) {
	dir, err := os.MkdirTemp("", "schema")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "template.db")
	if err := s.migrate("sqlite://" + file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// Postgres creates a migrated database and returns its URL as superuser. It is dropped after the
// test.
func (s *Schema) Postgres(t testing.TB) string {
	t.Helper()
	requirePostgres(t)
	template := Must(s.postgres())(t)
	return createPostgres(t, " TEMPLATE "+template+" STRATEGY FILE_COPY") // several times faster than WAL_LOG
}

// SQLite creates a migrated file and returns its URL.
func (s *Schema) SQLite(t testing.TB) string {
	t.Helper()
	url := SQLite(t)
	content := Must(s.sqlite())(t)
	require.NoError(t, os.WriteFile(strings.TrimPrefix(url, "sqlite://"), content, 0o600))
	return url
}

// OnBothDatabases runs a test once on each dialect, with the URL of a new migrated database. The
// two runs are parallel.
func (s *Schema) OnBothDatabases(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	onBoth(t, s.Postgres, s.SQLite, test)
}
