package sitekit

import (
	"context"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
	"opportunity.internal/services/authquota"
	"opportunity.internal/services/authquota/internal/testkit"
)

// Redis is the Redis of one test.
type Redis interface {
	Stop()
	Start() // without the data from before
	Flush()
	Client() *redis.Client
}

// Stores outlive the services that a test starts on them.
type Stores struct {
	Redis

	Database string // URL
	RedisURL string
}

// ProductionStores returns stores on Postgres and Redis.
func ProductionStores(t testing.TB) Stores {
	r := redistest.Start(t)
	return Stores{Redis: r, Database: testkit.Schema.Postgres(t), RedisURL: r.URL}
}

// LocalStores returns stores on SQLite and an embedded Redis, which start faster.
func LocalStores(t testing.TB) Stores { return withRedis(t, testkit.Schema.SQLite(t)) }

func withRedis(t testing.TB, database string) Stores {
	r := &embeddedRedis{t: t, addr: storetest.FreeAddress(t)}
	r.Start()
	t.Cleanup(r.Stop)
	return Stores{Redis: r, Database: database, RedisURL: "redis://" + r.addr}
}

// Config returns the settings of a service on the stores, without those of mails.
func (s Stores) Config() authquota.Config {
	return authquota.Config{
		Database: database.Config{URL: s.Database, MaxConnections: 4, AllowOwner: true},
		Redis:    redisdb.Config{URL: s.RedisURL, Budget: 10 * time.Second},
		Tokens:   servicetest.Tokens(peer.Authquota), Callers: servicetest.Callers(peer.Authquota),
		PublicURL: testkit.PublicURL,
		Peppers:   []string{hex.EncodeToString(testkit.Pepper)}, OlderKeys: `jb-.{4,60}`, Encryption: []string{
			strings.Repeat("e7", 32),
		},
		Telemetry: telemetry.Config{LogOutput: io.Discard}, ResponseTimeout: 10 * time.Second,
	}
}

type embeddedRedis struct {
	t      testing.TB
	addr   string
	server *embedded.Server
}

func (r *embeddedRedis) Start() {
	r.t.Helper()
	s, err := embedded.Start(r.addr)
	require.NoError(r.t, err)
	r.server, r.addr = s, strings.TrimPrefix(s.URL(), "redis://")
}

func (r *embeddedRedis) Stop() {
	if r.server != nil {
		r.server.Close()
		r.server = nil
		storetest.AwaitForks()
	}
}

func (r *embeddedRedis) Flush() {
	require.NoError(r.t, r.Client().FlushAll(context.Background()).Err())
}

func (r *embeddedRedis) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: r.addr})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}
