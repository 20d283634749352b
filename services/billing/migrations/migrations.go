// Package migrations embeds the schema migrations of billing as numbered SQL files, those of each
// dialect in its folder. Never edit a released file: add one with the next number.
package migrations

import "embed"

// Files contains the migrations in the layout of database.Migrate.
//
//go:embed postgres/*.sql sqlite/*.sql
var Files embed.FS
