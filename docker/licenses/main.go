// Command licenses prints the licenses of all software of other projects that the modules in the
// given folders are compiled with: a table, then each license text once. It fails if a module has
// no license file, or one with a license that is not allowed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the identifiers (of SPDX, where it has one) of licenses that permit shipping the
// module in a binary, with its text. CC-BY-4.0 is that of documentation and OFL-1.1 that of a font;
// no program contains them.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "GooglePatentsFile", "ISC", "MIT",
	"MIT-0", "MPL-2.0", "OFL-1.1", "Unlicense", "Zlib"}

// legalFile matches the names of files with a license text or a notice that must accompany the
// binary.
var legalFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// A module is one line of the table. The standard library has no version, because it depends on the
// installed toolchain.
type module struct {
	Path, Version string
	licenses      []string // SPDX identifiers, sorted
	texts         []string
}

func (m module) String() string { return strings.TrimSpace(m.Path + " " + m.Version) }

func main() {
	modules, err := list(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
	write(os.Stdout, modules)
}

// platforms are those for which the programs are released: some modules are compiled on one only.
var platforms = [][]string{
	{"GOOS=linux", "GOARCH=amd64"},
	{"GOOS=linux", "GOARCH=arm64"},
	{"GOOS=darwin", "GOARCH=arm64"},
}

// list returns the modules of other projects that the packages of the modules in dirs need on any
// platform, sorted by path and version, and the Go standard library. It ignores the workspace, as
// the image builds do.
func list(ctx context.Context, dirs []string) ([]module, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("running go env: %w", err)
	}
	std, err := classify(module{Path: "std"}, strings.TrimSpace(string(root)))
	if err != nil {
		return nil, err
	}
	found := map[string]module{"std": std}
	for _, dir := range dirs {
		for _, platform := range platforms {
			command := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "./...")
			command.Dir, command.Stderr = dir, os.Stderr
			command.Env = append(append(os.Environ(), "GOWORK=off"), platform...)
			output, err := command.Output()
			if err != nil {
				return nil, fmt.Errorf("running go list in %s: %w", dir, err)
			}
			if err := add(found, output); err != nil {
				return nil, err
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	}), nil
}

// add classifies the modules in the output of go list that are neither found yet nor part of this
// repository.
func add(found map[string]module, output []byte) error {
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var dependency struct {
			Module *struct{ Path, Version, Dir string }
		}
		switch err := decoder.Decode(&dependency); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the output of go list: %w", err)
		case dependency.Module == nil || strings.HasPrefix(dependency.Module.Path, "opportunity.internal/"):
			continue
		}
		m := module{Path: dependency.Module.Path, Version: dependency.Module.Version}
		if _, known := found[m.String()]; known {
			continue
		}
		classified, err := classify(m, dependency.Module.Dir)
		if err != nil {
			return err
		}
		found[m.String()] = classified
	}
}

// classify reads the legal files of the module in dir. It returns an error that names the module
// and the file if a license is missing or not allowed.
func classify(m module, dir string) (module, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return m, fmt.Errorf("%s: %w", m, err)
	}
	for _, file := range files {
		if file.IsDir() || !legalFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return m, fmt.Errorf("%s: %w", m, err)
		}
		m.texts = append(m.texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
		for _, match := range licensecheck.Scan(text).Match {
			if !slices.Contains(allowed, match.ID) {
				return m, fmt.Errorf("%s: %s contains license %s; allowed are %s", m, file.Name(), match.ID,
					strings.Join(allowed, ", "))
			}
			m.licenses = append(m.licenses, match.ID)
		}
	}
	if len(m.licenses) == 0 {
		return m, fmt.Errorf("%s: no file of %s has a license that is recognized", m, dir)
	}
	slices.Sort(m.licenses)
	m.licenses = slices.Compact(m.licenses)
	return m, nil
}

// write prints the table and each different text with the modules that it applies to.
func write(out io.Writer, modules []module) {
	fmt.Fprintln(out, "Software of other projects in the programs of this repository. Made by `make licenses`.")
	fmt.Fprintln(out)
	var order []string
	users := map[string][]string{}
	for _, m := range modules {
		fmt.Fprintf(out, "%s: %s\n", m, strings.Join(m.licenses, ", "))
		for _, text := range m.texts {
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.String())
		}
	}
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
}
