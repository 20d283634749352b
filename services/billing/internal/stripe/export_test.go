package stripe

import "context"

// Charge charges an invoice, which only a pending renewal needs otherwise.
func Charge(ctx context.Context, s *Stripe, invoice string) error { return s.charge(ctx, invoice) }
