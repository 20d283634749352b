// Package migrations is the schema of billing, a folder of numbered files per dialect.
package migrations

import "embed"

// Files holds the folders postgres and sqlite.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
