package billing

import (
	"context"
	"errors"
	"fmt"
	"io"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/highwater"
	"opportunity.internal/pkg/service"
)

// Recover accepts that the database was set back, after it has read every subscription from the processor. Until then nothing is sold and no
// entitlement is pushed. If the processor fails for one of them, nothing is accepted, and Recover can be repeated.
func Recover(ctx context.Context, cfg Config, decision service.Recovery, out io.Writer) error {
	cfg.Database.Access = database.Existing
	err := definition.Do(ctx, cfg, func(r *service.Runtime) error {
		if err := r.NotSetBack(ctx); !errors.Is(err, highwater.ErrSetBack) {
			return err // or nil: Accept says that there is nothing to accept
		}
		c := newComponents(r, cfg)
		if err := c.store.PassLostChanges(ctx, decision.Operator); err != nil {
			return err
		}
		if err := c.stripe.ExpireCheckouts(ctx); err != nil {
			return fmt.Errorf("nothing was accepted, run it again: %w", err)
		}
		report, err := c.reconcile(ctx, decision.Operator)
		if err == nil && report.Failed > 0 {
			err = ErrReconcileIncomplete
		}
		if err != nil {
			return fmt.Errorf("nothing was accepted: %w", err)
		}
		return printReport(out, "text", report)
	})
	if err != nil {
		return err
	}
	return definition.Accept(ctx, cfg, decision.Operator, out)
}
