// Command quickstart lists recently verified platforms on which residents of Ontario can sell.
package main

import (
	"context"
	"fmt"
	"log"

	"opportunity.internal/sdk/go/opportunity"
)

func main() {
	client, err := opportunity.New() // reads OPPORTUNITY_URL and OPPORTUNITY_KEY
	if err != nil {
		log.Fatal(err)
	}
	filter := opportunity.Filter{Country: "CA", Province: "ON", Category: opportunity.CategorySell,
		Verified: opportunity.True}
	for record, err := range client.Opportunities(context.Background(), filter) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.ID, record.Verification.Status, record.Company.Website)
	}
}
