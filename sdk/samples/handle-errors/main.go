// Command handle-errors shows what a program does about each kind of error.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"opportunity.internal/sdk/go/opportunity"
)

func main() {
	client, err := opportunity.New()
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"maple-scribe", "no-such-record"} {
		detail, err := client.Opportunity(context.Background(), id)
		if err != nil {
			fmt.Printf("%s: %s\n", id, advice(err))
			continue
		}
		fmt.Printf("%s: %s\n", id, detail.Data.Verification.Status)
	}
}

// advice returns what to do about a failed call. The client has retried already.
func advice(err error) string {
	failed := new(opportunity.Error)
	if !errors.As(err, &failed) {
		return err.Error() // the context ended
	}
	switch failed.Code {
	case opportunity.CodeNotFound:
		return "remove the record"
	case opportunity.CodeMissingAPIKey, opportunity.CodeInvalidAPIKey, opportunity.CodeExpiredAPIKey,
		opportunity.CodeRevokedAPIKey:
		return "get another key"
	case opportunity.CodeSubscriptionRequired, opportunity.CodeAccountSuspended:
		return "ask the owner of the account"
	case opportunity.CodeMinuteLimitReached, opportunity.CodeDailyLimitReached, opportunity.CodeServiceCapacityReached:
		return fmt.Sprintf("continue in %v", failed.RetryAfter)
	case opportunity.CodeConnectionFailed, opportunity.CodeServiceUnavailable, opportunity.CodeInternalError:
		return "continue later"
	}
	return fmt.Sprintf("fix the program: %v, see %s", failed, failed.Documentation)
}
