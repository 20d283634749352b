// Package command implements the command line of services with a database: subcommands, and settings from the environment.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/probe"
	"opportunity.internal/pkg/telemetry"
)

// Common holds the settings common to all services with a database.
type Common struct {
	Telemetry telemetry.Config
	Database  database.Config
}

// Service describes a service with a database. C is the type of its settings.
type Service[C any] struct {
	Name       string
	Migrations fs.FS // one folder of numbered SQL files for each dialect
	Common     func(C) Common

	Serve func(context.Context, C) error // runs until the context is done
	Check func(context.Context, C) error // checks dependencies other than the database
	Verbs map[string]Verb[C]             // subcommands besides serve, migrate, check and ready, by name; may be nil
}

// Verb is a subcommand of one service.
type Verb[C any] struct {
	Usage string // synopsis of its arguments, such as "[--at DATE] ID"; empty if it takes none
	// Load loads the settings, if the verb needs fewer than the service. If nil, all settings are loaded.
	Load func(lookup func(string) (string, bool)) (C, error)
	// Run executes the verb with the arguments after its name.
	Run func(ctx context.Context, cfg C, args []string) error
}

// checkTime limits the duration of check.
const checkTime = 10 * time.Second

// Main runs one subcommand: serve, migrate, check, ready, or one of Verbs. Only Verbs take arguments.
func (s Service[C]) Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	if len(args) == 0 {
		return s.usage()
	}
	name, args := args[0], args[1:]
	verb, own := s.Verbs[name]
	if len(args) > 0 && (!own || verb.Usage == "") {
		return s.usage()
	}
	var run func(context.Context, C) error
	load := config.Load[C]
	switch {
	case own:
		run = func(ctx context.Context, cfg C) error { return verb.Run(ctx, cfg, args) }
		if verb.Load != nil {
			load = verb.Load
		}
	case name == "migrate": // needs only the database settings, so its job has no other secret
		only, err := config.Load[Common](lookup)
		if err = errors.Join(err, only.Database.Validate()); err != nil {
			return err
		}
		return s.migrate(ctx, only)
	case name == "ready":
		return probe.Ready(ctx, lookup)
	case name == "serve":
		run = s.Serve
	case name == "check":
		run = s.check
	default:
		return s.usage()
	}
	cfg, err := load(lookup)
	if err != nil {
		return err
	}
	return run(ctx, cfg)
}

// usage returns an error that lists all subcommands.
func (s Service[C]) usage() error {
	verbs := []string{"serve", "migrate", "check", "ready"}
	for _, name := range slices.Sorted(maps.Keys(s.Verbs)) {
		verbs = append(verbs, strings.TrimSpace(name+" "+s.Verbs[name].Usage))
	}
	return fmt.Errorf("usage: %s %s", s.Name, strings.Join(verbs, " | "))
}

// Migrate migrates the database to the schema version of this binary.
func (s Service[C]) Migrate(ctx context.Context, cfg C) error { return s.migrate(ctx, s.Common(cfg)) }

func (s Service[C]) migrate(ctx context.Context, c Common) error {
	tel, err := telemetry.Start(ctx, s.Name, c.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	return database.Migrate(ctx, c.Database, tel, s.Migrations)
}

// check returns an error for everything that would prevent the service from working.
func (s Service[C]) check(ctx context.Context, cfg C) error {
	c := s.Common(cfg)
	tel, err := telemetry.Start(ctx, s.Name, c.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(c.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return errors.Join(db.Current(ctx, s.Migrations), s.Check(ctx, cfg))
}
