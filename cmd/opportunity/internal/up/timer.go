package up

import (
	"context"
	"time"
)

// runEvery calls do after the delay first, then at each interval and on each value of wake, until ctx
// ends. Once do returns false, runEvery stops calling it and waits for ctx.
func runEvery(
	ctx context.Context, first, interval time.Duration, wake <-chan struct{}, do func(context.Context) (again bool),
) error {
	for wait := first; ; wait = interval {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-wake:
			timer.Stop()
		}
		if !do(ctx) {
			<-ctx.Done()
			return nil
		}
	}
}

// Schedule of the comparison of subscriptions with the payment processor.
const (
	firstPaymentCheck    = time.Minute
	paymentCheckInterval = 24 * time.Hour
)

// comparePayments calls compare on its schedule until ctx ends. It ignores errors: compare logs
// them, and the next run retries.
func comparePayments(ctx context.Context, compare func(context.Context) error) error {
	return runEvery(ctx, firstPaymentCheck, paymentCheckInterval, nil, func(ctx context.Context) bool {
		_ = compare(ctx)
		return true
	})
}
