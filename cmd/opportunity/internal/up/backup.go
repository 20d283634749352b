package up

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
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

All databases are copied as of the same moment. Writes wait meanwhile; reads do not. Everything else
is copied too, the secrets included, except the log. To restore the backup, replace the data
directory with it while "up" is stopped.`,
		Example: `  opportunity backup "/mnt/backups/$(date +%F)"`,
		Args:    cobra.ExactArgs(1),
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
	new := to + ".new"
	if err := os.Mkdir(new, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(new))
		}
	}()
	// First: what it remembers of the databases must not be newer than their copies.
	if err := copyFile(from, new, verbs.RedisFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := copyDatabases(ctx, from, new); err != nil {
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
			err = os.CopyFS(filepath.Join(new, name), os.DirFS(filepath.Join(from, name)))
		default:
			err = copyFile(from, new, name)
		}
		if err != nil {
			return err
		}
	}
	return os.Rename(new, to)
}

// copyDatabases copies the files of all databases while it holds the write locks of all: each
// service remembers changes of others, and the copy of the other must have them. A checkpoint may
// run meanwhile. It writes only pages that are in the log as well, and the log cannot begin again.
func copyDatabases(ctx context.Context, from, to string) error {
	db, err := sql.Open("sqlite", fileURL(from, databases[0])+"?mode=rw&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the locks belong to the connection
	for _, name := range databases[1:] {
		if _, err := db.ExecContext(ctx, "ATTACH DATABASE ? AS "+name, fileURL(from, name)+"?mode=rw"); err != nil {
			return fmt.Errorf("%s.db: %w", name, err)
		}
	}
	if _, err := db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("lock databases: %w", err)
	}
	for _, name := range databases {
		for _, file := range []string{name + ".db", name + ".db-wal"} {
			in, err := os.Open(filepath.Join(from, file))
			if err != nil {
				return err
			}
			defer in.Close() // not before the end: closing it releases the locks of this process
			if err := copyTo(to, in); err != nil {
				return err
			}
		}
	}
	_, err = db.ExecContext(ctx, "ROLLBACK")
	return err
}

func fileURL(dir, database string) string {
	return "file:" + (&url.URL{Path: filepath.Join(dir, database+".db")}).EscapedPath()
}

func copyFile(from, to, name string) error {
	in, err := os.Open(filepath.Join(from, name))
	if err != nil {
		return err
	}
	defer in.Close()
	return copyTo(to, in)
}

// copyTo copies a file to a directory durably, with mode 0600.
func copyTo(dir string, in *os.File) error {
	out, err := os.OpenFile(filepath.Join(dir, filepath.Base(in.Name())), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
