// Package embedded runs a Redis server in the process, for running the whole API on a machine without Redis.
//
// It listens on a loopback port, so clients and scripts are the same as in production. It stores nothing on disk: after a restart the
// daily counters are restored from the ledger, and other data is at most a minute old.
package embedded

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Server is a running server.
type Server struct{ redis *miniredis.Miniredis }

// Start starts a server on addr. Port 0 picks a free port.
func Start(addr string) (*Server, error) {
	s := miniredis.NewMiniRedis()
	if err := s.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	s.ClockTTL(true) // by default keys never expire
	return &Server{s}, nil
}

// URL returns the redis:// URL of the server.
func (s *Server) URL() string { return "redis://" + s.redis.Addr() }

// Close stops the server, closes all connections, and discards all data.
func (s *Server) Close() { s.redis.Close() }
