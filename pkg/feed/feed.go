// Package feed replicates data from one service to another by long polling. The client, a Copy,
// requests all changes after the latest sequence that it has; the server, a Source, holds the
// request open until there are changes. Pulling needs no outbox, survives an outage of either side,
// and can be repeated safely.
//
// The requests of a client have the newest mark of its copy, see package setback: a store that was
// restored from a backup assigns the same sequences again, to other changes. If an operator has
// given up the generation of the mark, the client copies all again.
package feed

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/telemetry"
)

// PageSize is the maximum number of changes in one response.
const PageSize = 1000

const (
	maxWait      = 25 * time.Second       // for which a request is held open
	responseTime = 10 * time.Second       // for the response itself, in addition to the wait
	firstPause   = 200 * time.Millisecond // after a failure or an early empty response; doubled after each further failure
	maxPause     = 10 * time.Second
)

// Page is the response to a pull.
type Page[T any] struct {
	Changes []T `json:"changes"`
	// newest mark of the store that the changes up to the last one, or all if there are none, are
	// not older than
	Mark      string `json:"mark,omitempty"`
	StartOver bool   `json:"startOver,omitempty"` // the client must request the first page
}

// Source is a store that serves its changes as a feed.
type Source[T any] struct {
	// Verify verifies that the store has what a mark names, and returns the newest mark. lost
	// reports that a copy with that mark and position must start over: an operator gave up the
	// generation, the text is no mark, or the position is above the newest change.
	Verify func(ctx context.Context, mark string, position int64) (newest string, lost bool, err error)
	// Changes returns up to limit changes with a sequence above after, ordered by sequence. It fails
	// while the store is set back, so that the client asks again after the decision of an operator.
	Changes func(ctx context.Context, after int64, limit int) ([]T, error)
	// Moved returns a channel that is closed when the store may have changes, or is set back.
	Moved func() <-chan struct{}
}

// Serve handles one pull. It returns the changes after the requested sequence. If there are none it
// waits until the store has moved, the wait time is over, the caller disconnects, or draining is
// closed because the server stops.
func (s Source[T]) Serve(r *http.Request, draining <-chan struct{}) (Page[T], error) {
	after, mark, wait, err := parse(r.URL.RawQuery)
	if err != nil {
		return Page[T]{}, err
	}
	newest, lost, err := s.Verify(r.Context(), mark, after)
	if err != nil || lost && after > 0 {
		return Page[T]{StartOver: lost}, err
	}
	telemetry.SetWaiting(r.Context())
	deadline := time.After(wait)
	for waiting := wait > 0; ; {
		moved := s.Moved()
		page, err := s.Changes(r.Context(), after, PageSize)
		if err == nil && (len(page) > 0 || !waiting) {
			// Verified again: the store may have been replaced since, and the page must have what
			// the next request presents.
			newest, lost, err = s.Verify(r.Context(), newest, after)
		}
		if err != nil || len(page) > 0 || !waiting {
			return Page[T]{Changes: page, Mark: newest, StartOver: lost}, err
		}
		select {
		case <-moved:
		case <-deadline:
			waiting = false
		case <-draining:
			waiting = false
		case <-r.Context().Done():
			return Page[T]{}, r.Context().Err()
		}
	}
}

func parse(raw string) (after int64, mark string, wait time.Duration, err error) {
	values, err := params.Read(raw, "after", "mark", "wait")
	if err != nil {
		return 0, "", 0, err
	}
	position, err := values.Integer("after", 0, math.MaxInt, 0)
	if err != nil {
		return 0, "", 0, err
	}
	if s, ok := values["wait"]; ok {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 || wait > maxWait {
			return 0, "", 0, problem.Invalid("wait", "must be a duration from 0s to "+maxWait.String())
		}
	}
	return int64(position), values["mark"], wait, nil
}

// Copy keeps a copy of another service's changes up to date.
type Copy[T any] struct {
	Name     string                                                // in logs, errors and metrics
	Get      func(ctx context.Context, path string, out any) error // requests a page from the other service
	Path     string                                                // of the feed
	Sequence func(change T) int64                                  // the change's position in the feed
	Store    Store[T]
}

// Store is a store with a copy. It saves nothing unless its cursor is the expected one: replicas
// pull at the same time, and a page may be older than a start over.
type Store[T any] interface {
	Cursor(ctx context.Context) (Cursor, error)
	// Save saves a page and moves the cursor, in one transaction.
	Save(ctx context.Context, from Cursor, changes []T, to Cursor) error
	// StartOver moves the cursor, and sets the sequences of all data to 0.
	StartOver(ctx context.Context, from, to Cursor) error
	// Prune moves the cursor, and deletes the data from before the copy started over that was not
	// replaced. It is called when the copy is complete.
	Prune(ctx context.Context, from, to Cursor) error
}

// Cursor is the position of a copy, the only row of the table feed_cursor.
type Cursor struct {
	Position  int64  // sequence of the last saved change
	Mark      string // of the page with that change
	Restarted bool   // the copy has started over: data with the sequence 0 is from before
}

// ReadCursor reads the cursor of the copy in a database.
func ReadCursor(db *gorm.DB) (c Cursor, err error) {
	err = db.Raw("SELECT position, mark, restarted FROM feed_cursor WHERE id = 1").Scan(&c).Error
	return c, err
}

// Move moves the cursor in a database. moved is false if it is not at from.
func (from Cursor) Move(tx *gorm.DB, to Cursor) (moved bool, err error) {
	done := tx.Exec(`UPDATE feed_cursor SET position = ?, mark = ?, restarted = ?
		WHERE id = 1 AND position = ? AND mark = ? AND restarted = ?`,
		to.Position, to.Mark, to.Restarted, from.Position, from.Mark, from.Restarted)
	return done.RowsAffected > 0, done.Error
}

// Follow pulls until ctx is done. It retries failures with backoff, and registers the feed's
// metrics with registry.
func (c Copy[T]) Follow(ctx context.Context, log *slog.Logger, registry prometheus.Registerer) error {
	metrics := NewMetrics(registry, c.Name)
	pause := firstPause
	for failing := false; ; {
		changes, err := c.pull(ctx, maxWait)
		metrics.Observe(changes, err)
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
			log.WarnContext(ctx, "feed interrupted, will retry", "feed", c.Name, "error", err.Error())
		default:
			pause = min(2*pause, maxPause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // jitter between replicas, not a secret
		}
	}
}

// CatchUp pulls until there are no more changes.
func (c Copy[T]) CatchUp(ctx context.Context) error {
	for {
		if changes, err := c.pull(ctx, 0); err != nil || changes == 0 {
			return err
		}
	}
}

// pull requests the changes after the position of the copy, waits for them up to wait, saves them,
// and returns their number. It returns PageSize if the copy has to start over, because there is
// more to pull.
func (c Copy[T]) pull(ctx context.Context, wait time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+responseTime)
	defer cancel()
	from, err := c.Store.Cursor(ctx)
	if err != nil {
		return 0, err
	}
	if from == (Cursor{}) { // new or lost
		return PageSize, c.Store.StartOver(ctx, from, Cursor{Restarted: true})
	}
	var page Page[T]
	query := url.Values{"after": {strconv.FormatInt(from.Position, 10)}, "wait": {wait.String()}}
	if from.Mark != "" {
		query.Set("mark", from.Mark)
	}
	if err := c.Get(ctx, c.Path+"?"+query.Encode(), &page); err != nil {
		return 0, err
	}
	if page.StartOver {
		return PageSize, c.Store.StartOver(ctx, from, Cursor{Restarted: true})
	}
	n := len(page.Changes)
	to := Cursor{Position: from.Position, Mark: page.Mark, Restarted: from.Restarted}
	if n > 0 {
		// the same request would be repeated forever
		if to.Position = c.Sequence(page.Changes[n-1]); to.Position <= from.Position {
			return 0, fmt.Errorf("page of feed %s ends at sequence %d: want above %d", c.Name, to.Position, from.Position)
		}
	}
	if to != from {
		if err := c.Store.Save(ctx, from, page.Changes, to); err != nil {
			return 0, err
		}
	}
	if n < PageSize && to.Restarted {
		return n, c.Store.Prune(ctx, to, Cursor{Position: to.Position, Mark: to.Mark})
	}
	return n, nil
}
