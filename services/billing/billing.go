// Package billing is the service that sells plans through a payment processor and tells authquota what each account has paid for.
//
// It never decides by itself that somebody has paid. The processor announces that something changed; the whole state of the
// subscription is read from the processor, kept, and reckoned into the account's entitlement; authquota is told of that until it has
// accepted it. Authquota ends what was paid for by its own clock, also while billing is away.
//
// What fails when something is away:
//   - the processor: nobody can buy, cancel or see a portal (503); announcements are refused with 5xx and come again;
//   - the database: the same;
//   - authquota: what changes is kept and told when it is back.
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

// Main runs one verb with settings from the environment. serve answers until ctx ends; migrate brings the schema up to date; check
// tells whether the settings are right, the schema is there, the processor sells what the plan table says and authquota answers;
// reconcile compares all that is kept with the processor and heals what differs.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return service.Main(ctx, lookup, args)
}

// Migrate brings the schema of cfg.Database to what this binary was built for.
func Migrate(ctx context.Context, cfg Config) error { return service.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It never migrates: it waits for its schema. It fails where the processor does not sell
// what the plan table says, and is not ready before it knows.
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
	p := newParts(cfg, db, tel, newMetrics(tel.Registry))
	defer p.close()
	p.serve(peer.New(cfg.AuthquotaURL, cfg.Tokens, tel.Transport(transport, "authquota")))

	ready := new(server.Ready)
	ready.Add("schema", func(ctx context.Context) error { return db.Current(ctx, migrations.Files) })
	ready.Add("processor", p.offered)
	api := httpapi.API{
		Errors: problem.Writer{BaseURL: cfg.PublicURL, Log: tel.Log}, Tokens: cfg.Tokens, Sales: p.sales, Store: p.kept,
		Reconcile: p.reconcile, Sandbox: cfg.Processor == Sandbox, Ready: ready, Webhook: p.webhook, SandboxPath: sandbox.Path,
	}
	if p.sandbox != nil {
		if api.SandboxPages, err = pages.New(p.sandbox, cfg.PublicURL, tel.Log); err != nil {
			return errors.Join(err, public.Close(), operations.Close())
		}
	}
	group := server.NewGroup(ctx, cfg.Server, tel.Log, ready)
	group.HTTP("operations", operations, server.Operations(ready, tel.Metrics()))
	group.HTTP("service", public, tel.Handler(api.Handler()))
	p.start(group)
	return group.Wait()
}

// every calls do at once and then each interval until ctx ends. A failure is logged; the next turn tries again.
func (p *parts) every(ctx context.Context, interval time.Duration, name string, do func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			p.tel.Log.ErrorContext(ctx, "loop fails", "loop", name, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
