// Package probe is the health check of a container that holds one binary and no shell: the binary asks its own process.
package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/server"
)

// patience is how long the process may take to say that it is ready.
const patience = 5 * time.Second

// Ready asks the process that serves on this machine whether it is ready. It reads where the operations port is and nothing
// else, so it holds no secret and opens no store.
func Ready(ctx context.Context, lookup func(string) (string, bool)) error {
	cfg, err := config.Load[server.Config](lookup)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(cfg.OperationsListen)
	if err != nil {
		return fmt.Errorf("OPPORTUNITY_OPERATIONS_LISTEN: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() { // it listens on all addresses, so on this one too
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return peer.CheckReady(ctx, "http://"+net.JoinHostPort(host, port))
}
