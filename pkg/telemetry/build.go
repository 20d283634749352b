package telemetry

import (
	"fmt"
	"runtime"
)

// Set by the linker, see scripts/stamp. A build without it, as for "go run", knows none of them.
var version, commit, date = unknown, unknown, unknown

const unknown = "unknown"

// Build describes how the binary was built. Unknown values are "unknown".
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"` // of the commit
	Go      string `json:"go"`
}

// ReadBuild returns the values of the linker and the version of Go.
func ReadBuild() Build { return Build{version, commit, date, runtime.Version()} }

// String returns the lines that --version of the named program prints.
func (b Build) String(program string) string {
	return fmt.Sprintf("%s %s\ncommit   %s\ndate     %s\ngo       %s", program, b.Version, b.Commit, b.Date, b.Go)
}
