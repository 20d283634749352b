package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
)

const (
	newestInterval = time.Second
	newestTimeout  = 2 * time.Second
)

// reporter reports to a service the newest change and checkpoint of its database that this replica has seen. catalog and history compare
// their databases with each other, which does not show that both were restored to the same point. Redis has the newest as well, for
// replicas that start later. It is not safe for concurrent use.
type reporter struct {
	name     string
	service  *peer.Client
	counters *redis.Client

	seen api.Seen
}

// report sends what this replica or Redis has seen. The response replaces it, because an operator may have accepted the loss of a part.
func (r *reporter) report(ctx context.Context) error {
	var known, newest api.Seen
	if text, err := r.counters.Get(ctx, counter.Newest(r.name)).Bytes(); err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			return err
		}
	}
	if known.Mark.Sequence < r.seen.Mark.Sequence {
		known.Mark = r.seen.Mark
	}
	if known.Checkpoint.Number < r.seen.Checkpoint.Number {
		known.Checkpoint = r.seen.Checkpoint
	}
	err := r.service.Post(ctx, api.NewestPath, known, &newest)
	failed, e := new(peer.StatusError), new(problem.Error)
	if errors.As(err, &failed) && failed.Status == http.StatusNotFound || errors.As(err, &e) && e.Code == problem.ServiceUnavailable {
		r.seen = known // an older release, an outage, or a database that was set back
		return nil
	}
	if err != nil {
		return err
	}
	r.seen = newest
	text, err := json.Marshal(newest)
	if err == nil && newest != known {
		_ = r.counters.Set(ctx, counter.Newest(r.name), text, counter.NewestChangeTTL).Err() // this replica remembers it
	}
	return err
}
