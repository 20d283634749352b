package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

// Replica starts a replica of s, and waits until it has its data. It is stopped after the test.
func (s *Server) Replica() *Server {
	s.t.Helper()
	// a primary waits five seconds for more replicas before it sends its data
	require.NoError(s.t, s.Client().ConfigSet(s.t.Context(), "repl-diskless-sync-delay", "0").Err())
	r := start(s.t, []string{"--replicaof", "127.0.0.1 " + s.port}, nil)
	storetest.Eventually(s.t, "the replica has the data of its primary", func() bool {
		return strings.Contains(r.info("replication"), "master_link_status:up")
	})
	return r
}

// Detach makes a replica lag from now on: its primary stays the same to Sentinels, but the replica
// gets no more of its writes.
func (s *Server) Detach() {
	s.t.Helper()
	require.NoError(s.t, s.Client().ReplicaOf(s.t.Context(), "127.0.0.1", "1").Err()) // nothing listens on port 1
}

// IsPrimary reports whether s replies and is a primary.
func (s *Server) IsPrimary() bool { return strings.Contains(s.info("replication"), "role:master") }

func (s *Server) info(section string) string {
	o := storetest.Must(redis.ParseURL(s.URL))(s.t)
	c := redis.NewClient(o)
	defer c.Close()
	return c.Info(s.t.Context(), section).Val()
}

// SentinelName is the name of the primary that Sentinels watch.
const SentinelName = "primary"

// Sentinel is a redis-sentinel process for one test.
type Sentinel struct {
	Address string

	cmd *exec.Cmd
}

// Sentinels starts n Sentinels that watch s and its replicas, and waits until they know each other
// and the replicas. More than half of them must agree to a failover, once s has not replied for
// downAfter. They are stopped after the test.
func (s *Server) Sentinels(n int, downAfter time.Duration) []*Sentinel {
	s.t.Helper()
	all := make([]*Sentinel, n)
	for i := range all {
		all[i] = s.sentinel(n/2+1, downAfter)
	}
	for _, each := range all {
		c := redis.NewSentinelClient(&redis.Options{Addr: each.Address})
		storetest.Eventually(s.t, "the Sentinels know the deployment", func() bool {
			known := c.Master(s.t.Context(), SentinelName).Val()
			return known["num-other-sentinels"] == fmt.Sprint(n-1) && known["num-slaves"] != "0"
		})
		require.NoError(s.t, c.Close())
	}
	return all
}

func (s *Server) sentinel(quorum int, downAfter time.Duration) *Sentinel {
	s.t.Helper()
	started := &Sentinel{Address: storetest.FreeAddress(s.t)}
	_, port, err := net.SplitHostPort(started.Address)
	require.NoError(s.t, err)
	file := filepath.Join(s.t.TempDir(), "sentinel.conf") // Sentinels write their state to it
	text := strings.Join([]string{
		"bind 127.0.0.1", "port " + port,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d", SentinelName, s.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", SentinelName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 5000\n", SentinelName),
	}, "\n")
	require.NoError(s.t, os.WriteFile(file, []byte(text), 0o600))
	started.cmd = exec.CommandContext(context.Background(), "redis-server", file, "--sentinel")
	out := storetest.Must(started.cmd.StdoutPipe())(s.t)
	require.NoError(s.t, started.cmd.Start())
	s.t.Cleanup(func() {
		_ = started.cmd.Process.Kill()
		_ = started.cmd.Wait()
	})
	require.True(s.t, storetest.AwaitLine(out, "+monitor master"), "redis-sentinel exited before it was ready")
	return started
}

// Pause stops the Sentinel from replying. Its connections stay open.
func (s *Sentinel) Pause(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
}

// Resume ends a Pause.
func (s *Sentinel) Resume(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
}

// SentinelURL returns the URL of the primary that Sentinels watch.
func SentinelURL(all []*Sentinel) string {
	addresses := make([]string, len(all))
	for i, s := range all {
		addresses[i] = s.Address
	}
	return "redis+sentinel://" + strings.Join(addresses, ",") + "/" + SentinelName
}
