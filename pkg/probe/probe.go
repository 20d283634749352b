// Package probe implements the health check of a container without a shell: its binary checks the running process.
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

// timeout limits the time for the response of the process.
const timeout = 5 * time.Second

// Ready returns an error unless the service on this machine is ready. It loads only the address of the operations port, so it needs no
// secret and opens no database.
func Ready(ctx context.Context, lookup func(string) (string, bool)) error {
	cfg, err := config.Load[server.Config](lookup)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(cfg.OperationsListen)
	if err != nil {
		return fmt.Errorf("OPPORTUNITY_OPERATIONS_LISTEN: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() { // it listens on all addresses
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return peer.CheckReady(ctx, "http://"+net.JoinHostPort(host, port))
}
