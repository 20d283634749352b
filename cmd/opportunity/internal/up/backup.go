package up

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/cmd/opportunity/internal/verbs"
)

// BackupCommand returns the command `opportunity backup`.
func BackupCommand() *cobra.Command {
	var dataDir string
	c := &cobra.Command{
		Use:   "backup DIR",
		Short: `Copy the data directory of "opportunity up", which may be running`,
		Long: `Copy the data directory of "opportunity up" to a new directory. "up" may be running.

All databases are copied as of the same moment, each as one file. Writes wait meanwhile; reads do
not. Everything else is copied too, the secrets included, except the log. To restore the backup,
replace the data directory with it while "up" is stopped.`,
		Example: `  opportunity backup "/mnt/backups/$(date +%F)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := backup(cmd.Context(), dataDir, args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "backup complete: %s\n", args[0])
			return err
		},
	}
	dataDirFlag(c, &dataDir)
	return c
}

// backup copies the data directory from to a new directory. It leaves no directory behind if it
// fails.
func backup(ctx context.Context, from, to string) (err error) {
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		return flags.Usage("%s exists: name a new directory", to)
	}
	copied := &dataDir{Path: to + ".new"}
	if err := os.Mkdir(copied.Path, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(copied.Path))
		}
	}()
	copyFile := func(name string) error {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		return copied.Write(name, text)
	}
	// First: what it remembers of the databases must not be newer than their copies.
	if err := copyFile(verbs.RedisFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := copyDatabases(ctx, from, copied); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "lock" || strings.HasPrefix(name, "log.jsonl") || strings.HasPrefix(name, verbs.RedisFile) ||
			strings.Contains(name, ".db"):
		case e.IsDir():
			err = os.CopyFS(copied.File(name), os.DirFS(filepath.Join(from, name)))
		default:
			err = copyFile(name)
		}
		if err != nil {
			return err
		}
	}
	return os.Rename(copied.Path, to)
}

// copyDatabases copies all databases while it holds the write locks of all: each service remembers
// changes of others, and the copy of the other must have them.
func copyDatabases(ctx context.Context, from string, to *dataDir) error {
	locked, err := sql.Open("sqlite", fileURL(from, databases[0])+"?mode=rw&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer locked.Close()
	locked.SetMaxOpenConns(1) // the locks belong to the connection
	for _, name := range databases[1:] {
		if _, err := locked.ExecContext(ctx, "ATTACH DATABASE ? AS "+name, fileURL(from, name)+"?mode=rw"); err != nil {
			return fmt.Errorf("%s.db: %w", name, err)
		}
	}
	if _, err := locked.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("lock databases: %w", err)
	}
	for _, name := range databases {
		if err := copyDatabase(ctx, from, to, name); err != nil {
			return fmt.Errorf("%s.db: %w", name, err)
		}
	}
	return nil
}

// copyDatabase writes a database as one file, with the changes that are only in the log beside it.
func copyDatabase(ctx context.Context, from string, to *dataDir, name string) error {
	db, err := sql.Open("sqlite", fileURL(from, name)+"?mode=rw")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := to.Database(name); err != nil { // with its mode
		return err
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to.File(name+".db")); err != nil {
		return err
	}
	file, err := os.Open(to.File(name + ".db"))
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func fileURL(dir, database string) string {
	return "file:" + (&url.URL{Path: filepath.Join(dir, database+".db")}).EscapedPath()
}
