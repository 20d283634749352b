package database

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"

	"opportunity.internal/pkg/telemetry"
)

// Migrate migrates the schema to the version of this binary. migrations has numbered SQL files in
// the folders migrations/postgres and migrations/sqlite. On Postgres several processes may call it
// at once: one migrates, the others wait.
//
// On Postgres it then grants ServingRole the rights to read and change all tables. Tables with the
// comment "append-only" can only be read and inserted into.
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
		tel.Log.InfoContext(ctx, "migration applied", "migration", m.Source.Path, "took", m.Duration)
	}
	if db.Dialect == Postgres && cfg.ServingRole != "" {
		return db.grant(ctx, cfg.ServingRole)
	}
	return nil
}

func (d *DB) provider(migrations fs.FS) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+d.Dialect)
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

// AppendOnly is the comment on tables whose rows are never updated or deleted.
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
	// One transaction, so that running services never lose their rights in between.
	return d.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, s := range statements {
			if err := tx.Exec(s).Error; err != nil {
				return fmt.Errorf("grant to serving role: %w", err)
			}
		}
		return nil
	})
}

// Await blocks until the schema has the version of this binary or a newer one. Services never
// migrate; see Migrate.
func (d *DB) Await(ctx context.Context, tel *telemetry.Telemetry, migrations fs.FS) error {
	for logged := false; ; logged = true {
		err := d.Current(ctx, migrations)
		if err == nil {
			return nil
		}
		if !logged {
			tel.Log.WarnContext(ctx, "waiting for migrations", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// Current returns an error unless the schema has the version of this binary or a newer one.
func (d *DB) Current(ctx context.Context, migrations fs.FS) error {
	want, err := d.newest(migrations)
	if err != nil {
		return err
	}
	var have sql.NullInt64 // the newest applied migration
	err = d.WithContext(ctx).Raw("SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&have).Error
	switch {
	case IsUnavailable(err):
		return err
	case err != nil:
		return fmt.Errorf("no schema: run migrate: %w", err)
	case have.Int64 < want:
		return fmt.Errorf("schema version %d is older than this binary (%d): run migrate", have.Int64, want)
	}
	return nil
}

func (d *DB) newest(migrations fs.FS) (int64, error) {
	files, err := fs.Glob(migrations, "migrations/"+d.Dialect+"/*.sql")
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no migrations for %s", d.Dialect)
	}
	return goose.NumericComponent(path.Base(slices.Max(files))) // numbers have leading zeros
}
