// Command stay-within-limits reads the list twice with a cache, and stops before the last tenth of
// the daily quota.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"opportunity.internal/sdk/go/opportunity"
)

func main() {
	client, err := opportunity.New(
		opportunity.WithCache(opportunity.NewMemoryCache(500)),
		opportunity.WithRetryBudget(2*time.Minute), // enough to wait for the minute limit twice
		opportunity.WithRetryHook(func(r opportunity.Retry) { log.Printf("%s: waiting for %v", r.Err.Code, r.Wait) }),
	)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		for page, err := range client.OpportunityPages(context.Background(), opportunity.Filter{}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("page %d: from the cache: %t\n", page.Pagination.Page, page.Response.NotModified)
			if quota := page.Response.RateLimit; quota.Remaining < quota.Limit/10 {
				fmt.Println("stop until", quota.Reset)
				return
			}
		}
	}
}
