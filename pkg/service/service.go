// Package service is the runtime of every service: telemetry, database, listeners, background
// loops, drain and cleanup, and the verbs of its command line. A service adds its handlers and
// loops; see Definition. This is the only package that combines the mechanisms of pkg.
package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opportunity.internal/pkg/certificate"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
)

// Definition describes a service. C is the type of its settings.
type Definition[C any] struct {
	Name       string
	Migrations fs.FS // one folder of numbered SQL files for each dialect; nil without a database
	Base       func(C) Base

	Start func(*Runtime, C) error                  // adds handlers and loops; Run then starts them
	Check func(context.Context, *Runtime, C) error // checks dependencies other than the database
}

// Base holds the settings that services have in common.
type Base struct {
	Server    server.Config
	Telemetry telemetry.Config
	Database  database.Config // unused without migrations
	Peers     certificate.PeerConfig
	TLS       certificate.ServerConfig // of the service port
	Ports     []server.Port            // besides those of Server
	Now       func() time.Time         // nil: time.Now
}

// Run serves until ctx ends, and then drains. It does not migrate the database: the loops wait for
// the schema. Every listener of cfg is closed when Run returns, also after an error.
func (d Definition[C]) Run(ctx context.Context, cfg C) error {
	return d.run(ctx, cfg, func(*Runtime) {})
}

func (d Definition[C]) run(ctx context.Context, cfg C, before func(*Runtime)) error {
	base := d.Base(cfg)
	ports, err := server.Open(ctx, append(base.Server.Ports(), base.Ports...))
	if err != nil {
		return err
	}
	defer server.Close(ports)
	return d.with(ctx, base, func(r *Runtime) error {
		before(r)
		if err := d.Start(r, cfg); err != nil {
			return err
		}
		withTLS, err := certificate.OpenServer(base.TLS, r.Now, r.Log, r.Registry)
		if err != nil {
			return err
		}
		return r.serve(ctx, base.Server, ports, withTLS)
	})
}

// Do calls work with the telemetry and the database of the service, as the verbs need them. It
// returns an error if the schema is not current.
func (d Definition[C]) Do(ctx context.Context, cfg C, work func(*Runtime) error) error {
	return d.with(ctx, d.Base(cfg), func(r *Runtime) error {
		if err := r.SchemaCurrent(ctx); err != nil {
			return err
		}
		return work(r)
	})
}

// Migrate migrates the database to the schema of this binary.
func (d Definition[C]) Migrate(ctx context.Context, cfg C) error { return d.migrate(ctx, d.Base(cfg)) }

func (d Definition[C]) migrate(ctx context.Context, base Base) error {
	return d.with(ctx, base, func(r *Runtime) error {
		return database.Migrate(ctx, base.Database, r.Telemetry, d.Migrations)
	})
}

// checkTime limits the duration of check.
const checkTime = 10 * time.Second

// check returns an error for everything that would prevent the service from working. With
// settingsOnly it connects to nothing, so it works before the first start.
func (d Definition[C]) check(ctx context.Context, cfg C, settingsOnly bool) error {
	base := d.Base(cfg)
	var invalid []error
	for _, p := range append(base.Server.Ports(), base.Ports...) {
		invalid = append(invalid, p.Validate())
	}
	if err := errors.Join(invalid...); err != nil || settingsOnly {
		return err
	}
	return d.with(ctx, base, func(r *Runtime) error {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		return errors.Join(r.checkDatabase(ctx), d.Check(ctx, r, cfg))
	})
}

func (r *Runtime) checkDatabase(ctx context.Context) error {
	if err := r.servingRole(ctx); err != nil {
		return fmt.Errorf("database %s: %w", r.DB.Where, err)
	}
	return nil
}

func (d Definition[C]) with(ctx context.Context, base Base, work func(*Runtime) error) error {
	tel, err := telemetry.Start(ctx, d.Name, base.Telemetry)
	if err != nil {
		return err
	}
	r := &Runtime{Telemetry: tel, Now: base.Now, name: d.Name, migrations: d.Migrations,
		handlers: map[string]http.Handler{}}
	loops := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"loop"})
		tel.Registry.MustRegister(g)
		return g
	}
	r.successes = loops("background_loop_success_timestamp_seconds",
		"Latest success of a background loop, or the start of the process.")
	r.intervals = loops("background_loop_interval_seconds", "Interval of a background loop.")
	defer r.cleanUp(context.WithoutCancel(ctx))
	r.Cleanup(func(ctx context.Context) { _ = tel.Shutdown(ctx) }) // spans that cannot be sent are lost
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.roots, err = certificate.OpenRoots(base.Peers, r.Now, r.Log, r.Registry); err != nil {
		return err
	}
	if d.Migrations != nil {
		if r.DB, err = database.Open(base.Database, tel); err != nil {
			return err
		}
		r.Cleanup(func(context.Context) { _ = r.DB.Close() })
	}
	return work(r)
}
