// Package source embeds the sources of this module for the service that distributes it.
package source

import "embed"

// Files holds the sources of package opportunity with its go.mod and README. Tests are not part of
// it.
//
//go:embed go.mod README.md opportunity/*.go opportunity/letters.txt
var Files embed.FS
