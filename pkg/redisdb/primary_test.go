package redisdb_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/redisdb"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/pkg/storetest/redistest"
)

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
