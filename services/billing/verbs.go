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
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/migrations"
)

// reconcileSettings are all that comparing needs: the serving process tells authquota what comes of it.
type reconcileSettings struct {
	Telemetry telemetry.Config
	Database  database.Config
	Stripe    stripe.Config
	Processor string `env:"OPPORTUNITY_BILLING_PROCESSOR" envDefault:"stripe"`
}

func loadForReconcile(lookup func(string) (string, bool)) (Config, error) {
	s, err := config.Load[reconcileSettings](lookup)
	cfg := Config{Telemetry: s.Telemetry, Database: s.Database, Stripe: s.Stripe, Processor: s.Processor}
	return cfg, errors.Join(err, cfg.Database.Validate(), cfg.processor(cfg.Stripe.ValidateToAsk))
}

// ErrNotCompared is the error of a comparison that could not ask the processor for everything; what, it has logged.
var ErrNotCompared = errors.New("not everything could be compared with the payment processor")

// Reconcile compares all that is kept with the processor and heals what differs. It needs the database and the processor, and no peer.
func Reconcile(ctx context.Context, cfg Config) (api.BillingReport, error) {
	tel, err := telemetry.Start(ctx, "billing", cfg.Telemetry)
	if err != nil {
		return api.BillingReport{}, err
	}
	defer tel.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // spans that cannot be sent are lost
	db, err := database.Open(cfg.Database, tel)
	if err != nil {
		return api.BillingReport{}, err
	}
	defer db.Close()
	if err := db.Current(ctx, migrations.Files); err != nil {
		return api.BillingReport{}, err
	}
	p := newParts(cfg, db, tel, newMetrics(tel.Registry))
	defer p.close()
	report, err := p.reconcile(ctx, reconcile.Actor)
	if err == nil && report.Failed > 0 {
		err = ErrNotCompared
	}
	return report, err
}

// reconcileVerb fails where something could not be compared. That something differed and was healed is no failure.
func reconcileVerb(ctx context.Context, cfg Config, args []string) error {
	flags := flag.NewFlagSet("reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its errors are returned
	form := flags.String("output", "text", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *form != "text" && *form != "json" {
		return errors.New("usage: billing reconcile [--output text|json]")
	}
	report, err := Reconcile(ctx, cfg)
	if err == nil || errors.Is(err, ErrNotCompared) {
		err = errors.Join(print(os.Stdout, *form, report), err)
	}
	return err
}

func print(out io.Writer, form string, report api.BillingReport) error {
	if form == "json" {
		return json.NewEncoder(out).Encode(report)
	}
	for _, d := range report.Differences {
		fmt.Fprintf(out, "%s: %s was %q and is %q\n", strings.TrimSpace(d.Account+" "+d.Subscription), d.Field, d.Had, d.Has)
	}
	_, err := fmt.Fprintln(out, report.Summary())
	return err
}
