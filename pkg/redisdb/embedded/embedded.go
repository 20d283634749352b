// Package embedded runs a Redis server in the process, for running the whole API on a machine without Redis.
//
// It listens on a loopback port, so clients and scripts are the same as in production. It stores nothing on disk: after a restart the
// daily counters are restored from the ledger, and other data is at most a minute old.
package embedded

import (
	"crypto/rand"
	"fmt"
	"net/url"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Server is a running server.
type Server struct {
	redis    *miniredis.Miniredis
	password string // empty: none required
}

// Start starts a server on addr. Port 0 picks a free port.
func Start(addr string) (*Server, error) {
	s := miniredis.NewMiniRedis()
	if err := s.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	s.ClockTTL(true) // by default keys never expire
	id := rand.Text()
	s.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command != "INFO" || len(args) != 1 || args[0] != "replication" { // a section that the library lacks
			return false
		}
		c.WriteBulk("role:master\r\nmaster_replid:" + id + "\r\n")
		return true
	})
	return &Server{redis: s}, nil
}

// RequirePassword rejects commands on connections that have not sent the password, so that other users of the machine cannot change
// limits.
func (s *Server) RequirePassword(password string) {
	s.password = password
	s.redis.RequireAuth(password)
}

// URL returns the redis:// URL of the server, with the password if one is required.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.redis.Addr()}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Close stops the server, closes all connections, and discards all data.
func (s *Server) Close() { s.redis.Close() }
