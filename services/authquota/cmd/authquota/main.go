// Command authquota serves accounts, API keys and usage inside the cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"opportunity.internal/services/authquota"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := authquota.Main(ctx, os.LookupEnv, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "authquota:", err)
		os.Exit(1)
	}
}
