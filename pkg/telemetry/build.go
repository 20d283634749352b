package telemetry

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker in release builds; see scripts/stamp.
var version, commit, date string

// Build describes how the binary was built. Unknown values are "unknown".
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"` // of the commit
	Go      string `json:"go"`
}

// ReadBuild returns the values of the linker or, without them, what the Go toolchain recorded.
func ReadBuild() Build {
	b := Build{version, commit, date, runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && b.Commit == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Date = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					b.Version = "dirty"
				}
			}
		}
	}
	for _, field := range []*string{&b.Version, &b.Commit, &b.Date} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return b
}

// String returns the lines that --version of the named program prints.
func (b Build) String(program string) string {
	return fmt.Sprintf("%s %s\ncommit   %s\ndate     %s\ngo       %s", program, b.Version, b.Commit, b.Date, b.Go)
}
