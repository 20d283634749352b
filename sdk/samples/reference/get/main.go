// Command get reads one record.
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
	detail, err := client.Opportunity(context.Background(), "maple-scribe")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(detail.Data.Company.Name, detail.Data.Verification.Status)
}
