// Package migrations embeds the schema migrations of billing, one folder of numbered files per SQL dialect.
package migrations

import "embed"

// Files contains the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
