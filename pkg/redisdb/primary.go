package redisdb

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/telemetry"
)

// primary notices when another primary takes over. It is safe for concurrent use.
type primary struct {
	changed func()
	changes prometheus.Counter
	log     *slog.Logger

	mu sync.Mutex
	id string // of the latest primary; empty before the first connection
}

func newPrimary(changed func(), tel *telemetry.Telemetry) *primary {
	p := &primary{changed: changed, log: tel.Log, changes: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "redis_primary_changes_total",
		Help: "Connections that reached another Redis primary than before: failovers and restarts.",
	})}
	tel.Registry.MustRegister(p.changes)
	return p
}

var errReplica = errors.New("redis is a replica: use the address of the primary, or redis+sentinel://")

// connected accepts a new connection to a primary, and returns an error if the server is a replica.
// The replication ID of a primary is new after each promotion and restart. If the server does not
// tell it, every connection counts as one to another primary.
func (p *primary) connected(ctx context.Context, conn *redis.Conn) error {
	info, err := conn.Info(ctx, "replication").Result()
	if reply := redis.Error(nil); err != nil && !errors.As(err, &reply) {
		return err
	}
	id := rand.Text()
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); {
		case name == "role" && value == "slave":
			return errReplica
		case name == "master_replid":
			id = value
		}
	}
	p.reached(ctx, id)
	return nil
}

func (p *primary) reached(ctx context.Context, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == id {
		return
	}
	first := p.id == ""
	p.id = id
	if first {
		return
	}
	p.changes.Inc()
	p.log.WarnContext(ctx, "redis primary changed")
	if p.changed != nil {
		p.changed()
	}
}
