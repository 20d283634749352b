// Package migrations holds the numbered schema changes of the catalog, a folder per dialect. A file that was released is never
// edited: the next change is the next number.
package migrations

import "embed"

// Files has the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
