// Package billing is the service that sells plans through a payment processor and pushes what each account has paid for to authquota.
//
// Billing never grants access on its own. When the processor sends a webhook event, billing reads the subscription's whole state from the
// processor, stores it, derives the account's entitlement and pushes that to authquota until it is acknowledged. Authquota ends paid
// periods by its own clock, even if billing is down.
//
// During outages:
//   - Processor: checkout, portal and cancellation return 503. Webhook events are answered with 5xx, and the processor sends them again.
//   - Database: the same.
//   - authquota: changes are stored, and pushed when it is back.
package billing

import (
	"context"
	"errors"
	"time"

	"opportunity.internal/pkg/command"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/sandbox/pages"
	"opportunity.internal/services/billing/migrations"
)

var service = command.Service[Config]{
	Name: "billing", Migrations: migrations.Files, Serve: Run,
	Common: func(c Config) command.Common { return command.Common{Telemetry: c.Telemetry, Database: c.Database} },
	Check:  check,
	Verbs: map[string]command.Verb[Config]{
		"reconcile": {Usage: "[--output text|json]", Load: loadForReconcile, Run: reconcileVerb},
	},
}

// Main runs one verb with settings from the environment. serve runs the service until ctx ends; migrate updates the schema; check
// verifies the settings, the schema, the processor's price and that authquota is reachable; reconcile compares the stored subscriptions
// with the processor and corrects what differs.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate updates the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate but waits for the schema. The service is ready once the processor's
// price has been checked; Run returns an error if the price does not match the plan table.
func Run(ctx context.Context, cfg Config) error {
	tel, err := telemetry.Start(ctx, "billing", cfg.Telemetry)
	if err != nil {
		return err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return err
	}
	defer db.Close()
	public, operations, err := cfg.Server.Open(ctx)
	if err != nil {
		return err
	}
	transport := peer.Transport()
	defer transport.CloseIdleConnections()
	c := newComponents(cfg, db, tel, newMetrics(tel.Registry))
	defer c.close()
	c.serve(peer.New(cfg.AuthquotaURL, cfg.Tokens, tel.Transport(transport, "authquota")))

	ready := new(server.Ready)
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	ready.Add("processor", c.offerReady)
	api := httpapi.API{
		Errors: problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}, Tokens: cfg.Tokens, Sales: c.sales, Store: c.store,
		Reconcile: c.reconcile, Sandbox: cfg.Processor == Sandbox, Ready: ready, Webhook: c.webhook, SandboxPath: sandbox.Path,
	}
	if c.sandbox != nil {
		if api.SandboxPages, err = pages.New(c.sandbox, cfg.PublicURL, tel.Log); err != nil {
			return errors.Join(err, public.Close(), operations.Close())
		}
	}
	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(api.Handler()))
	c.start(group)
	return group.Wait()
}

// runEvery calls run immediately and then every interval until ctx ends. It logs errors.
func (c *components) runEvery(ctx context.Context, interval time.Duration, name string, run func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			c.tel.Log.ErrorContext(ctx, "background loop failing", "loop", name, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
