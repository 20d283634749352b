package billing

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/stripe"
)

// reconcileConfig holds the settings that reconcile and recover need. The serving process pushes
// the results to authquota.
type reconcileConfig struct {
	Telemetry telemetry.Config
	Database  database.Config
	Stripe    stripe.Config
	Processor string `env:"OPPORTUNITY_BILLING_PROCESSOR" envDefault:"stripe"`
}

// RecoverConfig loads the settings for Reconcile and Recover.
func RecoverConfig(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[reconcileConfig](lookup)
	cfg := Config{Telemetry: s.Telemetry, Database: s.Database, Stripe: s.Stripe, Processor: s.Processor}
	return cfg, errors.Join(err, cfg.Database.Validate(), cfg.validateProcessor(cfg.Stripe.ValidateAPI))
}

// ErrReconcileIncomplete is returned if the processor failed for some customers or subscriptions,
// which are in the log.
var ErrReconcileIncomplete = errors.New("reconciliation incomplete: see the log for what was not compared, then run " +
	"it again")

// Reconcile compares the stored subscriptions with the processor and corrects what differs. It
// needs the database and the processor, but no other service.
func Reconcile(ctx context.Context, cfg Config) (report api.BillingReport, err error) {
	err = definition.Do(ctx, cfg, func(r *service.Runtime) error {
		if err := r.NotSetBack(ctx); err != nil {
			return err
		}
		report, err = newComponents(r, cfg).reconcile(ctx, reconcile.Actor)
		return err
	})
	if err == nil && report.Failed > 0 {
		err = ErrReconcileIncomplete
	}
	return report, err
}

// reconcileVerb returns an error if the reconciliation was incomplete. Corrected differences are
// not an error.
func reconcileVerb(ctx context.Context, cfg Config, args []string) error {
	flags := flag.NewFlagSet("reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned
	format := flags.String("output", "text", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *format != "text" && *format != "json" {
		return errors.New("usage: billing reconcile [--output text|json]")
	}
	report, err := Reconcile(ctx, cfg)
	if err == nil || errors.Is(err, ErrReconcileIncomplete) {
		err = errors.Join(printReport(os.Stdout, *format, report), err)
	}
	return err
}

func printReport(out io.Writer, format string, report api.BillingReport) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(report)
	}
	for _, d := range report.Differences {
		fmt.Fprintf(out, "%s: %s was %q and is %q\n", strings.TrimSpace(d.Account+" "+d.Subscription), d.Field, d.Had, d.Has)
	}
	_, err := fmt.Fprintln(out, report.Summary())
	return err
}

// Recover ends the state of a database that was set back. It accepts a loss after it has read every
// subscription from the processor. Until then nothing is sold and no entitlement is pushed. If the
// processor fails for one of them, nothing is accepted, and Recover can be repeated.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	return definition.Do(ctx, cfg, func(r *service.Runtime) error {
		switch err := r.NotSetBack(ctx); {
		case err != nil && !errors.Is(err, setback.ErrSetBack):
			return err
		case err == nil || decision.Current:
			return r.Recover(ctx, decision, out, nil) // or says that there is nothing to decide
		}
		c := newComponents(r, cfg)
		if err := c.store.PassLostChanges(ctx, decision.Operator); err != nil {
			return err
		}
		if err := c.processor.ExpireCheckouts(ctx); err != nil {
			return fmt.Errorf("nothing was accepted, run it again: %w", err)
		}
		report, err := c.reconcile(ctx, decision.Operator)
		if err == nil && report.Failed > 0 {
			err = ErrReconcileIncomplete
		}
		if err != nil {
			return fmt.Errorf("nothing was accepted: %w", err)
		}
		if err := printReport(out, "text", report); err != nil {
			return err
		}
		return r.Recover(ctx, decision, out, nil)
	})
}
