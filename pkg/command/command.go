// Package command is what the binaries of the services with a store have in common: verbs, and settings from the environment.
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

// Common are the settings that every service with a store has.
type Common struct {
	Telemetry telemetry.Config
	Database  database.Config
}

// Service is a service with a store, as its binary starts it. C holds its settings.
type Service[C any] struct {
	Name       string
	Migrations fs.FS // a folder of numbered SQL files for each dialect
	Common     func(C) Common

	Serve func(context.Context, C) error // until the context ends
	Check func(context.Context, C) error // whether what it needs beside its database answers
	Verbs map[string]Verb[C]             // what it can do beside serve, migrate, check and ready, by name; may be nil
}

// Verb is something that only one service can do.
type Verb[C any] struct {
	Usage string // how its arguments are written, such as "[--at DATE] ID"; empty where it takes none
	// Load reads the settings, of a verb that needs fewer than the service; nil: all of them.
	Load func(lookup func(string) (string, bool)) (C, error)
	// Run does it with what followed the name. Where Usage is empty there is nothing.
	Run func(ctx context.Context, cfg C, args []string) error
}

// checkTime is how long check may take.
const checkTime = 10 * time.Second

// Main runs one verb: serve; migrate, which brings the schema up to date; check; ready; or one of Verbs. Only those take arguments.
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
	case name == "migrate": // needs no more than the database, so that the job that runs it holds no other secret
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

// usage names every verb.
func (s Service[C]) usage() error {
	verbs := []string{"serve", "migrate", "check", "ready"}
	for _, name := range slices.Sorted(maps.Keys(s.Verbs)) {
		verbs = append(verbs, strings.TrimSpace(name+" "+s.Verbs[name].Usage))
	}
	return fmt.Errorf("usage: %s %s", s.Name, strings.Join(verbs, " | "))
}

// Migrate brings the schema of the database to what this binary was built for.
func (s Service[C]) Migrate(ctx context.Context, cfg C) error { return s.migrate(ctx, s.Common(cfg)) }

func (s Service[C]) migrate(ctx context.Context, c Common) error {
	tel, err := telemetry.Start(ctx, s.Name, c.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	return database.Migrate(ctx, c.Database, tel, s.Migrations)
}

// check reports everything that would keep the service from doing its work.
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
