// Package embedded is a Redis server inside the process, for running the whole API on a machine that has no Redis.
//
// It speaks the protocol on a loopback port, so everything goes through the same client and the same scripts as in production.
// It keeps nothing on disk: what must survive a restart is seeded from the ledger, and the rest lives a minute at most.
package embedded

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Server is a running server.
type Server struct{ redis *miniredis.Miniredis }

// Start listens on addr; port 0 picks a free one.
func Start(addr string) (*Server, error) {
	s := miniredis.NewMiniRedis()
	if err := s.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	s.ClockTTL(true) // without it keys would never expire: by itself the server's time to live stands still
	return &Server{s}, nil
}

// URL is where clients find the server.
func (s *Server) URL() string { return "redis://" + s.redis.Addr() }

// Close ends the server and the connections to it, and forgets all data.
func (s *Server) Close() { s.redis.Close() }
