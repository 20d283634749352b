// Package command is what the binaries of the services with a store have in common: one verb, settings from the environment.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/telemetry"
)

// Service is a service with a store, as its binary starts it. C holds its settings.
type Service[C any] struct {
	Name       string
	Migrations fs.FS // a folder of numbered SQL files for each dialect

	Serve func(context.Context, C) error // until the context ends
	Check func(context.Context, C) error // everything that would keep it from being ready
}

// Main runs one verb: serve; migrate, which brings the schema up to date; check.
func (s Service[C]) Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	usage := fmt.Errorf("usage: %s serve | migrate | check", s.Name)
	if len(args) != 1 {
		return usage
	}
	var verb func(context.Context, C) error
	switch args[0] {
	case "migrate": // needs no more than the database, so that the job that runs it holds no other secret
		only, err := config.Load[struct {
			Telemetry telemetry.Config
			Database  database.Config
		}](lookup)
		if err = errors.Join(err, only.Database.Validate()); err != nil {
			return err
		}
		return s.Migrate(ctx, only.Telemetry, only.Database)
	case "serve":
		verb = s.Serve
	case "check":
		verb = s.Check
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
func (s Service[C]) Migrate(ctx context.Context, t telemetry.Config, d database.Config) error {
	tel, err := telemetry.Start(ctx, s.Name, t)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	return database.Migrate(ctx, d, tel, s.Migrations)
}
