package billing

import (
	"context"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service"
	"opportunity.internal/pkg/setback"
)

const (
	generationInterval = 10 * time.Second
	generationTimeout  = 5 * time.Second
)

// pushAgain pushes every entitlement after authquota's database was set back: it may lack some,
// although it acknowledged them.
func (c *components) pushAgain(authquota *peer.Client) {
	c.Every(service.Loop{Name: "generation of authquota", Interval: generationInterval, Retry: time.Second,
		Timeout: generationTimeout,
		Do: c.guard.UnlessSetBack(func(ctx context.Context) error {
			var newest string
			if err := authquota.Get(ctx, api.MarkPath, &newest); err != nil {
				return service.UnlessReported(err)
			}
			m, ok := setback.Parse(newest)
			if !ok {
				return nil
			}
			again, err := c.store.PushAgain(ctx, m.Generation)
			if again {
				c.push()
			}
			return err
		})})
}
