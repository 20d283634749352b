// Package source embeds the sources of this module for the service that distributes it.
package source

import "embed"

// Files holds the sources of the command opportunity-data with its go.mod. Tests are not part of
// it.
//
//go:embed go.mod README.md opportunity-data/*.go
var Files embed.FS
