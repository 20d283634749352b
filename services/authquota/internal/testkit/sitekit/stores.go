package sitekit

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	"opportunity.internal/services/authquota/internal/courier"
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

	mailbox    string           // directory of the mails
	clock      func() time.Time // of the service started last
	recovering bool             // a store has been stopped and started again
}

// NewStores returns stores on a database and a Redis.
func NewStores(t testing.TB, database string, redis *redistest.Server) *Stores {
	return &Stores{Redis: redis, Database: database, RedisURL: redis.URL, mailbox: t.TempDir()}
}

// ProductionStores returns stores on Postgres and Redis.
func ProductionStores(t testing.TB) *Stores {
	return NewStores(t, testkit.Schema.Postgres(t), redistest.Start(t))
}

// LocalStores returns stores on SQLite and an embedded Redis, which start faster.
func LocalStores(t testing.TB) *Stores { return withRedis(t, testkit.Schema.SQLite(t)) }

func withRedis(t testing.TB, database string) *Stores {
	r := &embeddedRedis{t: t, addr: storetest.FreeAddress(t)}
	r.Start()
	t.Cleanup(r.Stop)
	return &Stores{Redis: r, Database: database, RedisURL: "redis://" + r.addr, mailbox: t.TempDir()}
}

// Stop stops Redis.
func (s *Stores) Stop() {
	s.Redis.Stop()
	s.recovering = false
}

// Start starts Redis again.
func (s *Stores) Start() {
	s.Redis.Start()
	s.Recovered()
}

// Recovered tells s that a store is available again after an outage.
func (s *Stores) Recovered() { s.recovering = true }

// Open opens the database of the service. It is closed after the test.
func (s *Stores) Open(t testing.TB) testkit.DB {
	t.Helper()
	return testkit.Open(t, s.Database, s.clock)
}

// Mail is a mail written to a file, File.
type Mail struct{ File, Template, To, Subject, Text string }

// Mails returns the mails written to files, oldest first.
func (s *Stores) Mails(t testing.TB) (mails []Mail) {
	t.Helper()
	names := storetest.Must(filepath.Glob(filepath.Join(s.mailbox, "*.eml")))(t)
	for _, name := range names {
		written, err := os.ReadFile(strings.TrimSuffix(name, ".eml") + ".txt") // written first
		require.NoError(t, err)
		found := mailFile.FindStringSubmatch(filepath.Base(name) + "\n" + string(written))
		require.NotNil(t, found, "%s\n%s", name, written)
		mails = append(mails, Mail{name, found[1], found[2], found[3], found[4]})
	}
	return mails
}

var mailFile = regexp.MustCompile(`(?s)^[^-]+-([a-z-]+)-[0-9a-f]{32}\.eml\nTo: ([^\n]+)\nSubject: ([^\n]+)\n\n(.*)$`)

// Mail waits for the n-th mail of a template to an address, counted from 1, and returns it.
func (s *Stores) Mail(t testing.TB, to, template string, n int) (found Mail) {
	t.Helper()
	storetest.Eventually(t, "mail "+template, func() bool {
		left := n
		for _, m := range s.Mails(t) {
			if m.To == to && m.Template == template {
				if left--; left == 0 {
					found = m
				}
			}
		}
		return left <= 0
	})
	return found
}

// Config returns the settings of a service on the stores.
func (s *Stores) Config() authquota.Config {
	return authquota.Config{
		Database: database.Config{URL: s.Database, MaxConnections: 4, AllowOwner: true},
		Redis:    redisdb.Config{URL: s.RedisURL, Budget: 10 * time.Second},
		Tokens:   servicetest.Tokens(peer.Authquota), Callers: servicetest.Callers(peer.Authquota),
		PublicURL: testkit.PublicURL,
		Peppers:   []string{hex.EncodeToString(testkit.Pepper)}, OlderKeys: `jb-.{4,60}`, Encryption: []string{
			strings.Repeat("e7", 32),
		},
		Telemetry: telemetry.Config{LogOutput: io.Discard}, ResponseTimeout: 10 * time.Second,
		Mail: courier.Config{URL: "file://" + s.mailbox, From: "Opportunity Data API <no-reply@api.example>"},
	}
}

type embeddedRedis struct {
	t      testing.TB
	addr   string
	server *embedded.Server
}

func (r *embeddedRedis) Start() {
	r.t.Helper()
	s := storetest.Must(embedded.Start(r.addr))(r.t)
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
