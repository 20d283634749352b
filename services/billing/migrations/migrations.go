// Package migrations embeds the schema migrations of billing as numbered SQL files: those of one dialect in its folder, those for both
// dialects beside it. Never edit a released file: add one with the next number.
package migrations

import "embed"

// Files contains the migrations in the layout of database.Migrate.
//
//go:embed *.sql postgres/*.sql sqlite/*.sql
var Files embed.FS
