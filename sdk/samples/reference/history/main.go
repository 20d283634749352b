// Command history reads every review and link check of one record, newest first.
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
	for event, err := range client.History(context.Background(), "maple-scribe", opportunity.HistoryFilter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.CheckType, event.Outcome)
	}
}
