// Command billing sells plans through a payment processor and pushes what accounts have paid for to
// authquota.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"opportunity.internal/services/billing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := billing.Main(ctx, os.LookupEnv, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "billing:", err)
		os.Exit(1)
	}
}
