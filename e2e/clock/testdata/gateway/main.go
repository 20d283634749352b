// Command gateway is the gateway with a clock that tests set: wrong by CLOCK_OFFSET, and by the
// seconds in the file CLOCK_OFFSET_FILE.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/services/gateway"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	cfg, err := config.Load[gateway.Config](os.LookupEnv)
	if err != nil {
		return err
	}
	offset, err := time.ParseDuration(os.Getenv("CLOCK_OFFSET"))
	if err != nil {
		return err
	}
	moved, err := os.Open(os.Getenv("CLOCK_OFFSET_FILE"))
	if err != nil {
		return err
	}
	cfg.Now = func() time.Time {
		text := make([]byte, 20)
		n, _ := moved.ReadAt(text, 0) // ends with io.EOF
		seconds, err := strconv.Atoi(string(text[:n]))
		if err != nil {
			panic(err)
		}
		return time.Now().Add(offset + time.Duration(seconds)*time.Second)
	}
	return gateway.Run(ctx, cfg)
}
