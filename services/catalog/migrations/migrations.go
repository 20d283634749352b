// Package migrations contains the numbered schema migrations of the catalog, one directory for each dialect. Never edit a released file:
// add one with the next number.
package migrations

import "embed"

// Files contains the directories postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
