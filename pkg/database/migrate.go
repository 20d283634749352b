package database

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"

	"opportunity.internal/pkg/telemetry"
)

// Migrate brings the schema to what this binary was built for. migrations has a folder per dialect with numbered SQL files.
// Several processes may call it at once on Postgres: one works, the others wait and find nothing to do.
// On Postgres it then grants ServingRole what serving needs: all rows of all tables, but of a table whose comment is
// "append-only" only reading and inserting.
func Migrate(ctx context.Context, cfg Config, tel *telemetry.Telemetry, migrations fs.FS) error {
	db, err := Open(cfg, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := db.provider(migrations)
	if err != nil {
		return err
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, m := range applied {
		tel.Log.InfoContext(ctx, "migrated", "migration", m.Source.Path, "took", m.Duration)
	}
	if db.Dialect == Postgres && cfg.ServingRole != "" {
		return db.grant(ctx, cfg.ServingRole)
	}
	return nil
}

func (d *DB) provider(migrations fs.FS) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, d.Dialect)
	if err != nil {
		return nil, err
	}
	if d.Dialect == SQLite {
		return goose.NewProvider(goose.DialectSQLite3, d.pool, files)
	}
	session, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, d.pool, files, goose.WithSessionLocker(session))
}

// AppendOnly is the comment that marks a table whose rows are never changed or removed.
const AppendOnly = "append-only"

func (d *DB) grant(ctx context.Context, role string) error {
	quoted := `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
	var tables []struct {
		Name    string
		Comment sql.NullString
	}
	err := d.WithContext(ctx).Raw(`SELECT c.relname AS name, obj_description(c.oid) AS comment
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname = current_schema()`).Scan(&tables).Error
	if err != nil {
		return err
	}
	var schema string
	if err := d.WithContext(ctx).Raw("SELECT quote_ident(current_schema())").Scan(&schema).Error; err != nil {
		return err
	}
	statements := []string{"GRANT USAGE ON SCHEMA " + schema + " TO " + quoted}
	for _, t := range tables {
		rights := "SELECT, INSERT, UPDATE, DELETE"
		switch {
		case t.Comment.String == AppendOnly:
			rights = "SELECT, INSERT"
		case strings.HasPrefix(t.Name, "goose_"):
			rights = "SELECT"
		}
		table := `"` + strings.ReplaceAll(t.Name, `"`, `""`) + `"`
		statements = append(statements, "REVOKE ALL ON "+table+" FROM "+quoted, "GRANT "+rights+" ON "+table+" TO "+quoted)
	}
	// In one transaction, so that whoever serves meanwhile never stands without rights.
	return d.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, s := range statements {
			if err := tx.Exec(s).Error; err != nil {
				return fmt.Errorf("grant to serving role: %w", err)
			}
		}
		return nil
	})
}

// Await blocks until the schema is at the version that this binary was built for, or newer: serving never migrates.
func (d *DB) Await(ctx context.Context, tel *telemetry.Telemetry, migrations fs.FS) error {
	want, err := d.built(migrations)
	if err != nil {
		return err
	}
	for told := false; ; told = true {
		have, err := d.Version(ctx)
		if err == nil && have >= want {
			return nil
		}
		if !told {
			tel.Log.WarnContext(ctx, "waiting for the schema", "have", have, "want", want, "error", fmt.Sprint(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Current reports an error unless the schema is at the version that this binary was built for, or newer.
func (d *DB) Current(ctx context.Context, migrations fs.FS) error {
	want, err := d.built(migrations)
	if err != nil {
		return err
	}
	have, err := d.Version(ctx)
	switch {
	case IsUnavailable(err):
		return err
	case err != nil:
		return fmt.Errorf("there is no schema yet, run migrate: %w", err)
	case have < want:
		return fmt.Errorf("schema is at version %d, this binary needs %d: run migrate", have, want)
	}
	return nil
}

// built is the number of the newest migration file.
func (d *DB) built(migrations fs.FS) (int64, error) {
	files, err := fs.Glob(migrations, d.Dialect+"/*.sql")
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no migrations for %s", d.Dialect)
	}
	return goose.NumericComponent(files[len(files)-1])
}

// Version is the number of the last migration that was applied.
func (d *DB) Version(ctx context.Context) (int64, error) {
	var version sql.NullInt64
	err := d.WithContext(ctx).Raw("SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&version).Error
	return version.Int64, err
}
