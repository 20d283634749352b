package courier

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// checkDirectory returns an error unless files can be saved in the directory. It creates a missing
// one.
func checkDirectory(directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(directory, ".*.part")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// saveFile writes a mail to a file that only its owner can read. It appears complete or not at all.
func saveFile(directory, name string, m io.WriterTo) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(directory, ".*.part") // mode 0600
	if err != nil {
		return err
	}
	_, err = m.WriteTo(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(directory, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
