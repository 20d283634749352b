// Command history runs the history service, which stores and serves verification events.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"opportunity.internal/services/history"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := history.Main(ctx, os.LookupEnv, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
}
