// Package migrations contains the schema of the history as numbered SQL files, one directory for each dialect. There are no down
// migrations, because they would delete append-only data.
package migrations

import "embed"

// Files contains the directories postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
