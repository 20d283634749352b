package billing

import (
	"context"
	"errors"
	"fmt"
	"io"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
)

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
