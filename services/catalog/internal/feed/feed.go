// Package feed pulls the summaries of the verification history and hands them to the store. The position reached is kept with
// the summaries, so a pull that was cut off is repeated, and an outage of either side is made up for afterwards.
package feed

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
)

// Store keeps the summaries and how far they were read.
type Store interface {
	Cursor(ctx context.Context) (int64, error)
	Keep(ctx context.Context, summaries []api.Summary) error
}

const (
	wait     = 25 * time.Second       // how long history may hold a request open until there is something to tell
	patience = wait + 10*time.Second  // for one pull, all in all
	minPause = 200 * time.Millisecond // after a failure; doubled up to maxPause
	maxPause = 10 * time.Second
)

// Follow pulls until ctx ends. Whatever fails is tried again.
func Follow(ctx context.Context, history *peer.Client, store Store, log *slog.Logger) error {
	pause := time.Duration(0)
	for {
		n, err := pull(ctx, history, store)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if pause == 0 {
				log.WarnContext(ctx, "summaries cannot be pulled; trying again", "error", err.Error())
			}
			pause = min(max(minPause, 2*pause), maxPause)
		default:
			if pause = 0; n > 0 {
				log.InfoContext(ctx, "summaries pulled", "summaries", n)
				continue
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(minPause, pause)): // an empty answer is no reason to hurry either
		}
	}
}

func pull(ctx context.Context, history *peer.Client, store Store) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cursor, err := store.Cursor(ctx)
	if err != nil {
		return 0, err
	}
	var answer api.SummaryFeed
	if err := history.Get(ctx, fmt.Sprintf("/internal/v1/summaries?after=%d&wait=%s", cursor, wait), &answer); err != nil {
		return 0, err
	}
	if len(answer.Summaries) == 0 {
		return 0, nil
	}
	return len(answer.Summaries), store.Keep(ctx, answer.Summaries)
}
