// Package migrations is the schema of the history, a folder of numbered files per dialect. There is no way back: undoing the
// first of them would remove what must never be removed.
package migrations

import "embed"

// Files holds the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
