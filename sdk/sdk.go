// Package sdk builds the SDKs for distribution from their embedded sources: an npm tarball, a
// Python wheel with its source distribution and Go modules. The same sources give the same bytes.
package sdk

import (
	"embed"
	"io/fs"
	"maps"
	"path"
	"strings"
	"time"

	command "opportunity.internal/sdk/command"
	library "opportunity.internal/sdk/go"
)

//go:embed LICENSE
//go:embed typescript/package.json typescript/README.md typescript/src
//go:embed python/README.md python/pyproject.toml python/opportunity_data/*.py python/opportunity_data/py.typed
var files embed.FS

// Version is the version of all SDKs.
const Version = "1.0.0"

// Names of the archives.
const (
	Tarball = "opportunity-data-" + Version + ".tgz"
	Wheel   = "opportunity_data-" + Version + "-py3-none-any.whl"
	Source  = "opportunity_data-" + Version + ".tar.gz" // of the wheel
	Module  = "opportunity.internal/sdk/go"
	Command = "opportunity.internal/sdk/command" // the module of the command opportunity-data
)

// Archives returns every file of the distribution by its path below /sdk/. The paths of the Go
// module are those of the module proxy protocol.
func Archives() (map[string][]byte, error) {
	tarball, err := npmTarball()
	if err != nil {
		return nil, err
	}
	wheel, err := pythonWheel()
	if err != nil {
		return nil, err
	}
	source, err := pythonSource()
	if err != nil {
		return nil, err
	}
	archives, err := goModule(Module, library.Files)
	if err != nil {
		return nil, err
	}
	ofCommand, err := goModule(Command, command.Files)
	if err != nil {
		return nil, err
	}
	maps.Copy(archives, ofCommand)
	archives[Tarball], archives[Wheel], archives[Source] = tarball, wheel, source
	return archives, nil
}

// file is a file of an archive.
type file struct {
	name    string
	content []byte
}

// epoch is the time of every file in an archive: the earliest time that zip can express, at UTC.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// tree returns the files below dir in lexical order, with names relative to dir and prefixed. Tests
// are left out.
func tree(from fs.FS, dir, prefix string) ([]file, error) {
	var out []file
	err := fs.WalkDir(from, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(from, name)
		relative := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		out = append(out, file{path.Join(prefix, relative), content})
		return err
	})
	return out, err
}

// withLicense adds the license to the files of an archive.
func withLicense(all []file, name string) ([]file, error) {
	license, err := files.ReadFile("LICENSE")
	return append(all, file{name, license}), err
}
