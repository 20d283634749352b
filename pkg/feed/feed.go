// Package feed is how one service keeps a copy of what another one knows: it asks for everything after the sequence that it has
// reached, and the other holds the request open until there is something to tell. Pulling needs no outbox, survives an outage
// of either side, and may be repeated without harm.
package feed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/server"
	"opportunity.internal/pkg/telemetry"
)

// Page is how many changes one answer holds at most.
const Page = 1000

const (
	maxWait    = 25 * time.Second       // for which a request is held open
	answerTime = 10 * time.Second       // beyond the wait, for the answer itself
	poll       = 200 * time.Millisecond // how often a held request looks for what another replica has changed
	firstPause = 200 * time.Millisecond // after a failure or an early empty answer; doubled at every further failure
	maxPause   = 10 * time.Second
)

// Query is where to continue and how long to wait, as the asking side sends it.
func Query(after int64, wait time.Duration) string {
	return fmt.Sprintf("?after=%d&wait=%s", after, wait)
}

// Serve answers one pull: read's changes after the sequence that the query names. Where there are none yet it reads again and
// again until there are, the time to wait is over, the caller leaves or the server drains.
func Serve[T any](r *http.Request, read func(ctx context.Context, after int64, limit int) ([]T, error)) ([]T, error) {
	after, wait, err := parse(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	deadline, again := time.NewTimer(wait), time.NewTicker(poll)
	defer deadline.Stop()
	defer again.Stop()
	for waiting := wait > 0; ; {
		changes, err := read(r.Context(), after, Page)
		if err != nil || len(changes) > 0 || !waiting {
			return changes, err
		}
		select {
		case <-again.C:
		case <-deadline.C:
			waiting = false
		case <-server.Draining(r):
			waiting = false
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func parse(raw string) (after int64, wait time.Duration, err error) {
	values, err := params.Read(raw, "after", "wait")
	if err != nil {
		return 0, 0, err
	}
	if s, ok := values["after"]; ok {
		if after, err = strconv.ParseInt(s, 10, 64); err != nil || after < 0 {
			return 0, 0, params.Invalid("after", "must be a sequence: an integer from 0")
		}
	}
	if s, ok := values["wait"]; ok {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 || wait > maxWait {
			return 0, 0, params.Invalid("wait", "must be a duration from 0s to "+maxWait.String())
		}
	}
	return after, wait, nil
}

// Pull asks once for changes after the copy's own position, waits for them up to wait, saves them, and tells how many came.
type Pull func(ctx context.Context, wait time.Duration) (changes int, err error)

// Follow pulls until ctx ends. A failure is tried again after a pause that grows; what names the feed in the log and the metrics.
func Follow(ctx context.Context, tel *telemetry.Telemetry, what string, pull Pull) error {
	watch := NewWatch(tel.Registry, what)
	pause := firstPause
	for failing := false; ; {
		changes, err := once(ctx, pull, maxWait)
		watch.Pulled(changes, err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause, failing = firstPause, false
			if changes > 0 {
				continue
			}
		case !failing: // once per outage
			failing = true
			tel.Log.WarnContext(ctx, "feed interrupted, trying again", "feed", what, "error", err.Error())
		default:
			pause = min(2*pause, maxPause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // spreads replicas, protects nothing
		}
	}
}

// CatchUp pulls until there is nothing newer.
func CatchUp(ctx context.Context, pull Pull) error {
	for {
		if changes, err := once(ctx, pull, 0); err != nil || changes == 0 {
			return err
		}
	}
}

func once(ctx context.Context, pull Pull, wait time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTime)
	defer cancel()
	return pull(ctx, wait)
}
