package redisdb_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/redisdb/embedded"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
	"opportunity.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func silent() *telemetry.Telemetry {
	return &telemetry.Telemetry{
		Tracer: noop.NewTracerProvider().Tracer(""), Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, url string, tel *telemetry.Telemetry) *redis.Client {
	t.Helper()
	client := storetest.Must(redisdb.Open(redisdb.Config{URL: url}, tel))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestConfig(t *testing.T) {
	for url, ok := range map[string]bool{
		"redis://127.0.0.1:6379":                true,
		"redis://user:secret@redis.test:6379/2": true,
		"rediss://redis.test:6380":              true,
		"":                                      false,
		"127.0.0.1:6379":                        false,
		"http://127.0.0.1:6379":                 false,
		"redis://127.0.0.1:6379/x":              false,
		"redis://user:secret@redis.test:99999":  false,
		"redis://user:secret@redis.test:0":      false,
		"redis://user:secret@host:port":         false,
		"redis://user:secret@[::1":              false,
		"redis://user:secret/more@redis.test":   false,
		"redis://redis.test/user:secret@host":   false,
		// net/url accepts one address in brackets
		"redis+sentinel://a.test:26379,b.test,[::1]:26379/mymaster":                                  false,
		"redis+sentinel://[::1]:26379/mymaster":                                                      true,
		"redis+sentinel://a.test:26379,b.test,c.test:1/mymaster":                                     true,
		"redis+sentinel://user:secret@a.test/mymaster/3":                                             true,
		"rediss+sentinel://user:secret@a.test/mymaster?sentinel_username=u&sentinel_password=secret": true,
		"redis+sentinel://user:secret@a.test":                                                        false,
		"redis+sentinel://user:secret@/mymaster":                                                     false,
		"redis+sentinel://user:secret@a.test,/mymaster":                                              false,
		"redis+sentinel://user:secret@a.test:0/mymaster":                                             false,
		"redis+sentinel://user:secret@a.test:secret/mymaster":                                        false,
		"redis+sentinel://user:secret@a.test/mymaster/secret":                                        false,
		"redis+sentinel://user:secret@a.test/mymaster?password=secret":                               false,
		"redis+sentinel://user:secret@a.test/mymaster?sentinel_password=%zzsecret":                   false,
	} {
		t.Run(url, func(t *testing.T) {
			err := redisdb.Config{URL: url, AllowPlaintext: true}.Validate()
			if ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "OPPORTUNITY_REDIS_URL")
			require.NotContains(t, err.Error(), "secret")
			_, err = redisdb.Open(redisdb.Config{URL: url, AllowPlaintext: true}, silent())
			require.Error(t, err)
		})
	}
}

func TestPlaintextToOtherMachinesIsRejected(t *testing.T) {
	for url, accepted := range map[string]bool{
		"redis://:secret@redis.test:6379":                       false,
		"redis://:secret@10.0.0.1":                              false,
		"redis+sentinel://:secret@a.test/mymaster":              false,
		"redis+sentinel://:secret@127.0.0.1,a.test/mymaster":    false,
		"rediss://:secret@redis.test:6379":                      true,
		"rediss+sentinel://:secret@a.test,b.test/mymaster":      true,
		"redis://localhost:6379":                                true,
		"redis://[::1]:6379":                                    true,
		"redis+sentinel://127.0.0.1:26379,127.0.0.1:1/mymaster": true,
	} {
		cfg := redisdb.Config{URL: url}
		err := cfg.Validate()
		if accepted {
			require.NoError(t, err, url)
			continue
		}
		require.EqualError(t, err, "OPPORTUNITY_REDIS_URL is without TLS: use rediss:// or rediss+sentinel://, "+
			"or for development set OPPORTUNITY_ALLOW_PLAINTEXT_STORES=true", url)
		_, opened := redisdb.Open(cfg, silent())
		require.Equal(t, err, opened, url)
		cfg.AllowPlaintext = true
		require.NoError(t, cfg.Validate(), url)
	}
}

// The server accepts connections and never replies, so only the budget ends the command.
func TestSilentServerCostsTheBudget(t *testing.T) {
	ln := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() }()
		}
	}()
	client := open(t, "redis://"+ln.Addr().String(), silent())
	requireTimeout(t, client.Ping(t.Context()).Err())
	_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Ping(t.Context()); return nil })
	requireTimeout(t, err)
	require.NoError(t, client.Close())
	require.NoError(t, ln.Close())
	<-done
}

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), err)
}

func TestCommandsSucceedAgainAfterRestart(t *testing.T) {
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	client := open(t, server.URL(), silent())
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())
	addr := server.URL()[len("redis://"):]
	server.Close()
	for range 100 { // the library would stop dialing after as many failures as the pool has connections
		require.ErrorIs(t, client.Get(t.Context(), "k").Err(), syscall.ECONNREFUSED)
	}

	server = storetest.Must(embedded.Start(addr))(t)
	defer server.Close()
	require.ErrorIs(t, client.Get(t.Context(), "k").Err(), redis.Nil, "the restarted server is empty")
}

func TestCommandsAreTimedByNameAndOutcome(t *testing.T) {
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	tel := silent()
	client := open(t, server.URL(), tel)
	require.NoError(t, client.Set(t.Context(), "private", "v", 0).Err())
	require.ErrorIs(t, client.Get(t.Context(), "no such key").Err(), redis.Nil)
	server.Close()
	require.Error(t, client.Get(t.Context(), "private").Err())

	timed := servicetest.Series(t, tel.Registry, "redis_command_duration_seconds")
	for _, outcome := range []string{"answered", "failed"} { // from opening the connections
		delete(timed, "command=hello outcome="+outcome)
		delete(timed, "command=info outcome="+outcome)
	}
	require.Equal(t, map[string]float64{
		"command=set outcome=answered": 1, "command=set outcome=failed": 0,
		"command=get outcome=answered": 1, "command=get outcome=failed": 1,
	}, timed)
}

func TestSpansHaveTheCommandWithoutArguments(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	server := storetest.Must(embedded.Start("127.0.0.1:0"))(t)
	defer server.Close()
	client := open(t, server.URL(), &telemetry.Telemetry{Tracer: tracer, Registry: prometheus.NewRegistry()})

	require.NoError(t, client.Set(t.Context(), "private", "value", 0).Err())
	require.Empty(t, spans.Ended(), "no spans outside a request")

	ctx, request := tracer.Start(t.Context(), "request")
	require.ErrorIs(t, client.Get(ctx, "no such key").Err(), redis.Nil)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "private"); return nil })
	require.NoError(t, err)
	request.End()

	ended := spans.Ended()
	require.Len(t, ended, 3)
	require.Equal(t, "GET", ended[0].Name())
	require.Equal(t, "PIPELINE", ended[1].Name())
	address, port, err := net.SplitHostPort(server.URL()[len("redis://"):])
	require.NoError(t, err)
	for _, span := range ended[:2] {
		require.Equal(t, request.SpanContext().SpanID(), span.Parent().SpanID())
		require.Zero(t, span.Status().Code, "a missing key is not a failure")
		got := map[string]string{}
		for _, a := range span.Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		require.Equal(t, map[string]string{
			"db.system.name": "redis", "db.operation.name": span.Name(), "db.namespace": "0", "server.address": address,
			"server.port": port,
		}, got, "no arguments")
	}
}

// openCounting opens a client and counts the new primaries that it reports.
func openCounting(t *testing.T, url string) (*redis.Client, *atomic.Int64) {
	t.Helper()
	changes := new(atomic.Int64)
	client, err := redisdb.Open(redisdb.Config{URL: url, OnNewPrimary: func() { changes.Add(1) }}, silent())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, changes
}

func TestSentinelURLFollowsThePrimary(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.Replica()
	sentinels := primary.Sentinels(1, time.Second) // several would have to agree, which takes seconds
	client, changes := openCounting(t, redistest.SentinelURL(sentinels)+"/0")
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())
	require.Zero(t, changes.Load(), "the first primary is no change")
	storetest.Eventually(t, "the replica has the key",
		func() bool { return replica.Client().Get(context.Background(), "k").Val() == "v" })

	primary.Stop()
	storetest.Eventually(t, "the client writes to the promoted replica", func() bool {
		return client.Set(context.Background(), "k2", "v", 0).Err() == nil
	})
	require.Equal(t, "v", client.Get(t.Context(), "k").Val())
	require.Equal(t, "v", replica.Client().Get(t.Context(), "k2").Val())
	require.Equal(t, int64(1), changes.Load())
}

// The library keeps the Sentinel that replied first. If that one stops replying, as on a lost node,
// new connections need another one.
func TestLostSentinelDoesNotStopNewConnections(t *testing.T) {
	primary := redistest.Start(t)
	primary.Replica()
	sentinels := primary.Sentinels(3, time.Minute)
	client, changes := openCounting(t, redistest.SentinelURL(sentinels))
	require.NoError(t, client.Ping(t.Context()).Err())
	admin := primary.Client()
	for _, lost := range sentinels {
		lost.Pause(t)
		require.NoError(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		storetest.Eventually(t, "a new connection", func() bool { return client.Ping(context.Background()).Err() == nil })
		lost.Resume(t)
	}
	require.Zero(t, changes.Load(), "it was the same primary")
}

func TestReconnectingToTheSamePrimaryIsNoChange(t *testing.T) {
	server := redistest.Start(t)
	client, changes := openCounting(t, server.URL)
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	storetest.Eventually(t, "a new connection", func() bool { return client.Ping(context.Background()).Err() == nil })
	require.Zero(t, changes.Load())

	server.Stop()
	server.Start()
	storetest.Eventually(t, "the restarted server replies",
		func() bool { return client.Ping(context.Background()).Err() == nil })
	require.Equal(t, int64(1), changes.Load())
}

// Without the right to ask who the primary is, each connection may be to another one.
func TestUnknownPrimaryCountsAsNew(t *testing.T) {
	server := redistest.Start(t)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "limited", "on", "nopass", "~*", "&*", "+@all",
		"-info").Err())
	client, changes := openCounting(t, "redis://limited:any@"+server.URL[len("redis://"):])
	require.NoError(t, client.Ping(t.Context()).Err())
	before := changes.Load()
	require.NoError(t, server.Client().ClientKillByFilter(t.Context(), "USER", "limited").Err())
	storetest.Eventually(t, "a new connection", func() bool { return client.Ping(context.Background()).Err() == nil })
	require.Greater(t, changes.Load(), before)
}

func TestReplicaIsRejected(t *testing.T) {
	client, _ := openCounting(t, redistest.Start(t).Replica().URL)
	require.ErrorContains(t, client.Ping(t.Context()).Err(), "use the address of the primary")
}
