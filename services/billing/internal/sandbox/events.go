package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/subscription"
)

const (
	Interval = 5 * time.Second // between checks for due renewals
	Retry    = time.Second     // between deliveries of an event that failed
)

func (s *Sandbox) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // already pending
	}
}

// Wakeups returns a channel that receives when events may be pending. Process then delivers them
// without waiting for the next interval.
func (s *Sandbox) Wakeups() <-chan struct{} { return s.wakeup }

// Process renews and ends the subscriptions that are due, deletes expired sessions, and delivers
// every pending event until that succeeds. A failing event does not hold up the others.
func (s *Sandbox) Process(ctx context.Context, deliver func(context.Context, subscription.Event) error) error {
	due, err := s.due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	for _, r := range due {
		switch r.Kind {
		case subscriptionKind:
			err = errors.Join(err, s.Update(ctx, r.ID, func(*Subscription) error { return nil }))
		case string(Checkout), string(Portal):
			err = errors.Join(err, s.delete(ctx, r))
		}
	}
	events, dueErr := s.due(ctx)
	err = errors.Join(err, dueErr)
	for _, r := range events {
		if r.Kind != eventKind {
			continue
		}
		var e subscription.Event
		eventErr := json.Unmarshal([]byte(r.Object), &e)
		if eventErr == nil {
			eventErr = deliver(ctx, e)
		}
		if eventErr == nil {
			eventErr = s.delete(ctx, r)
		}
		err = errors.Join(err, eventErr)
	}
	return err
}

// due returns the objects that are due, oldest first.
func (s *Sandbox) due(ctx context.Context) (due []row, err error) {
	err = s.db.WithContext(ctx).Order("number").Find(&due, "due_at <= ?", s.time().Unix()).Error
	return due, database.Outage(err)
}

func (s *Sandbox) delete(ctx context.Context, r row) error {
	return s.db.WithContext(ctx).Delete(&r).Error
}
