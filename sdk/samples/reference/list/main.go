// Command list lists platforms on which residents of Canada can sell.
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
	filter := opportunity.Filter{Country: "CA", Category: opportunity.CategorySell}
	for record, err := range client.Opportunities(context.Background(), filter) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.ID)
	}
}
