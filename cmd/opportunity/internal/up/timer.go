package up

import (
	"context"
	"time"
)

// byTimer calls do after a first time and then each interval, until ctx ends. Where do says that it need not be called again, it only
// waits for that.
func byTimer(ctx context.Context, first, interval time.Duration, do func(context.Context) (again bool)) error {
	for wait := first; ; wait = interval {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if !do(ctx) {
			<-ctx.Done()
			return nil
		}
	}
}

// What was paid for is compared with the payment processor soon after the start, and then once a day.
const (
	firstPayments = time.Minute
	paymentsEvery = 24 * time.Hour
)

// comparePayments calls compare by the timer until ctx ends. Whatever fails is compared the next day; compare has logged it.
func comparePayments(ctx context.Context, compare func(context.Context) error) error {
	return byTimer(ctx, firstPayments, paymentsEvery, func(ctx context.Context) bool {
		_ = compare(ctx)
		return true
	})
}
