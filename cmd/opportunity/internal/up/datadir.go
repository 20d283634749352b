package up

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// databases has the names of the databases, which are those of their services.
var databases = []string{"catalog", "history", "authquota", "billing"}

// dataDir is a directory that keeps all state between starts. Only one process can use it at a
// time.
type dataDir struct {
	Path string // absolute

	lock *os.File
}

// openDataDir creates the directory with mode 0700 if it is missing, and locks it. The operating
// system releases the lock when the process ends, even after a crash.
func openDataDir(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("lock %s: %w", path, err)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("data directory %s is in use by another process", path)
		}
		return nil, errors.Join(err, lock.Close())
	}
	if err := ownDatabases(path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &dataDir{path, lock}, nil
}

// ownDatabases sets mode 0600 on existing databases: the directory may have existed before,
// readable by others.
func ownDatabases(path string) error {
	files, err := filepath.Glob(filepath.Join(path, "*.db*"))
	for _, file := range files {
		err = errors.Join(err, os.Chmod(file, 0o600))
	}
	return err
}

// Unlock releases the directory for other processes.
func (d *dataDir) Unlock() { d.lock.Close() }

// File returns the path of a file in the directory.
func (d *dataDir) File(name string) string { return filepath.Join(d.Path, name) }

// Database returns the URL of an SQLite file in the directory. It creates the file with mode 0600,
// because SQLite would make it readable by others. SQLite gives its additional files the same mode.
func (d *dataDir) Database(name string) (string, error) {
	f, err := os.OpenFile(d.File(name+".db"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "sqlite", Path: d.File(name + ".db")}).String(), f.Close()
}

// Secret reads a secret from the file name. It generates the secret on the first start.
func (d *dataDir) Secret(name string) (string, error) {
	text, err := os.ReadFile(d.File(name))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	secret := hex.EncodeToString(random)
	return secret, d.Write(name, []byte(secret+"\n"))
}

// Read decodes a JSON file of the directory into out. It leaves out unchanged if the file does not
// exist.
func (d *dataDir) Read(name string, out any) error {
	text, err := os.ReadFile(d.File(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: %w", d.File(name), err)
	}
	return nil
}

// Save writes v as a JSON file.
func (d *dataDir) Save(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.Write(name, append(text, '\n'))
}

// Write replaces a file atomically and durably, with mode 0600. A crash leaves the old file or the
// new one.
func (d *dataDir) Write(name string, text []byte) error {
	f, err := os.CreateTemp(d.Path, name+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), d.File(name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
