// Package embedded runs a Redis server in the process, for running the whole API on a machine
// without Redis.
//
// It listens on a loopback port, so clients and scripts are the same as in production. It stores
// only hashes that Save names on disk: after a restart the daily counters are restored from the
// ledger, and other data is at most a minute old.
package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Server is a running server.
type Server struct {
	redis    *miniredis.Miniredis
	password string // empty: none required
	saved    []byte // by the last Save
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

// RequirePassword rejects commands on connections that have not sent the password, so that other
// users of the machine cannot change limits.
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

// Save writes hashes to a file, unless they are as at the last call.
func (s *Server) Save(file string, hashes ...string) error {
	all := map[string]map[string]string{}
	for _, hash := range hashes {
		fields, _ := s.redis.HKeys(hash) // no fields if it does not exist
		all[hash] = map[string]string{}
		for _, field := range fields {
			all[hash][field] = s.redis.HGet(hash, field)
		}
	}
	text, err := json.Marshal(all)
	if err != nil || bytes.Equal(text, s.saved) {
		return err
	}
	next := file + ".next"
	if err = os.WriteFile(next, text, 0o600); err == nil {
		err = os.Rename(next, file)
	}
	if err == nil {
		s.saved = text
	}
	return err
}

// Load reads the hashes of a file that Save wrote. A file that does not exist has none.
func (s *Server) Load(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w; without this file, no one can tell whether a database was replaced: remove it only if "+
			"none was", file, err)
	}
	for hash, fields := range all {
		for field, value := range fields {
			s.redis.HSet(hash, field, value)
		}
	}
	return nil
}

// Close stops the server, closes all connections, and discards all data.
func (s *Server) Close() { s.redis.Close() }
