// Package command is what the binaries of the services with a store have in common: one verb, settings from the environment.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
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
}

// checkTime is how long check may take.
const checkTime = 10 * time.Second

// Main runs one verb: serve; migrate, which brings the schema up to date; check.
func (s Service[C]) Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	usage := fmt.Errorf("usage: %s serve | migrate | check", s.Name)
	if len(args) != 1 {
		return usage
	}
	var verb func(context.Context, C) error
	switch args[0] {
	case "migrate": // needs no more than the database, so that the job that runs it holds no other secret
		only, err := config.Load[Common](lookup)
		if err = errors.Join(err, only.Database.Validate()); err != nil {
			return err
		}
		return s.migrate(ctx, only)
	case "serve":
		verb = s.Serve
	case "check":
		verb = s.check
	default:
		return usage
	}
	cfg, err := config.Load[C](lookup)
	if err != nil {
		return err
	}
	return verb(ctx, cfg)
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
