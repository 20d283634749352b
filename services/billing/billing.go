// Package billing is the service that sells plans through a payment processor and pushes what each
// account has paid for to authquota.
//
// Billing never grants access on its own. When the processor sends a webhook event, billing reads
// the subscription's whole state from the processor, stores it, derives the account's entitlement
// and pushes that to authquota until it is acknowledged. Authquota ends paid periods by its own
// clock, even if billing is down.
//
// During outages:
//   - Processor: checkout, portal and cancellation return 503. Webhook events get a 5xx, and the
//     processor sends them again.
//   - Database: the same.
//   - authquota: changes are stored, and pushed when it is back. Its pages, where plans are bought
//     and cancelled, are unavailable, too.
//
// Gateways remember the newest change of billing's database. If the database was set back, billing
// stops until an operator has decided; see Recover. If authquota's was, billing pushes every
// entitlement again.
package billing

import (
	"context"
	"errors"

	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/service"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
)

var definition = service.Definition[Config]{
	Name: "billing", Migrations: store.Migrations, Start: start, Check: check,
	Base: func(c Config) service.Base {
		return service.Base{Server: c.Server, Telemetry: c.Telemetry, Database: c.Database, TLS: c.TLS, Peers: c.Peers,
			Now: c.Now}
	},
}

// Main runs one verb with settings from the environment. serve runs the service until ctx ends;
// migrate updates the schema; check verifies the settings, the schema, the processor's price and
// that authquota is reachable; reconcile compares the stored subscriptions with the processor and
// corrects what differs; recover does that for a database that was set back.
func Main(ctx context.Context, lookup func(string) (string, bool), args []string) error {
	return definition.Main(ctx, lookup, args, map[string]service.Verb[Config]{
		"reconcile": {
			Usage: "[--output text|json]", Help: "Compare every subscription with the processor and correct what differs.",
			Load: RecoverConfig, Run: reconcileVerb,
		},
		"recover": service.RecoverVerb("billing", RecoverConfig, Recover),
	})
}

// Migrate updates the schema of cfg.Database to the version this binary needs.
func Migrate(ctx context.Context, cfg Config) error { return definition.Migrate(ctx, cfg) }

// Run serves until ctx ends, and then drains. It does not migrate but waits for the schema. The
// service is ready once the processor's price has been checked; Run returns an error if the price
// does not match the plan table.
func Run(ctx context.Context, cfg Config) error { return definition.Run(ctx, cfg) }

func start(r *service.Runtime, cfg Config) error {
	c := newComponents(r, cfg)
	c.serve(cfg)
	r.Ready.Add("schema", r.SchemaReady)
	r.Ready.Add("processor", c.offerReady)
	api := httpapi.API{
		Errors: problem.Writer{BaseURL: cfg.PublicURL, Log: r.Log}, Sales: c.sales,
		Reconcile: c.reconcile, Ready: &r.Ready, Webhook: c.webhook,
	}
	if c.sandbox != nil {
		var err error
		if api.SandboxPages, err = c.sandbox.Pages(cfg.PublicURL, r.Log); err != nil {
			return err
		}
		r.Every(service.Loop{Name: "sandbox", Interval: sandbox.Interval, Retry: sandbox.Retry, Wake: c.sandbox.Wakeups(),
			Do: c.guard.UnlessSetBack(c.runSandbox)})
	}
	access := peer.NewAccess(peer.Billing, cfg.Callers, api.Errors)
	r.Handle(server.ServicePort, r.InternalHandler(access.Handler(c.guard.Handler(api.Handler(), api.Errors))))
	r.WatchPeer(peer.Authquota, cfg.AuthquotaURL, cfg.Tokens)
	r.Go("offer", c.checkOffer)
	r.Every(service.Loop{Name: "entitlements", Interval: reconcile.Interval, Retry: reconcile.Retry, Wake: c.changed,
		Do: c.guard.UnlessSetBack(c.pusher.Deliver)})
	return nil
}

func check(ctx context.Context, r *service.Runtime, cfg Config) error {
	return errors.Join(newComponents(r, cfg).compareOffer(ctx),
		r.CheckPeer(ctx, peer.Authquota, cfg.AuthquotaURL, cfg.Tokens))
}
