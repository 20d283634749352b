// Command read-every-page counts for how many platforms it is known whether they allow remote work.
package main

import (
	"context"
	"fmt"
	"log"

	"opportunity.internal/sdk/go/opportunity"
)

func main() {
	client, err := opportunity.New()
	if err != nil {
		log.Fatal(err)
	}
	count := map[opportunity.Tri]int{}
	for page, err := range client.OpportunityPages(context.Background(), opportunity.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, record := range page.Data {
			count[record.Facts.Remote]++
		}
		fmt.Printf("page %d: %d of %d records\n", page.Pagination.Page, len(page.Data), page.Pagination.Total)
	}
	fmt.Printf("remote: %d yes, %d no, %d unknown\n", count[opportunity.True], count[opportunity.False],
		count[opportunity.Unknown])
}
