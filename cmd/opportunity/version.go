package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/flags"
)

// Set by the Makefile and the Dockerfile with -ldflags "-X main.version=...". A plain "go build"
// leaves them empty.
var version, commit, date string

// info describes the build.
type info struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"` // of the commit
	Go      string `json:"go"`
}

// build returns the linker's values or, without them, what the Go toolchain recorded.
func build() info {
	i := info{version, commit, date, runtime.Version()}
	stamped, ok := debug.ReadBuildInfo()
	if ok && i.Commit == "" {
		for _, s := range stamped.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.time":
				i.Date = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					i.Version = "dirty"
				}
			}
		}
	}
	for _, field := range []*string{&i.Version, &i.Commit, &i.Date} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return i
}

func (i info) String() string {
	return fmt.Sprintf("opportunity %s\ncommit   %s\ndate     %s\ngo       %s", i.Version, i.Commit, i.Date, i.Go)
}

func versionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the version, and the commit it was built from",
		Example: "  opportunity version\n  opportunity version --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(build())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build())
			return err
		},
	}
	flags.Choice(c.Flags(), &output, "output", "text", "output format", "text", "json")
	return c
}
