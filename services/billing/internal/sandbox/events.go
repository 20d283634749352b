package sandbox

import (
	"context"
	"errors"
	"time"

	"crypto/rand"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/processor"
)

// Interval is the time between checks for due renewals and between deliveries of an event that failed.
const Interval = time.Second

// enqueueEvents stores one pending event for each type.
func enqueueEvents(tx *gorm.DB, subscriptionID string, types []string, now time.Time) error {
	for i, eventType := range types {
		at := database.Micros(now) + int64(i)
		if err := tx.Create(&eventRow{"evt_sandbox_" + rand.Text(), at, eventType, subscriptionID}).Error; err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // already pending
	}
}

// Wakeups returns a channel that receives when events may be pending. Process then delivers them without waiting for the next interval.
func (s *Sandbox) Wakeups() <-chan struct{} { return s.wakeup }

// Process renews and ends the subscriptions that are due, and delivers every pending event to handle until it succeeds. Events may arrive
// out of order and more than once.
func (s *Sandbox) Process(ctx context.Context, handle func(context.Context, processor.Event) error) error {
	return errors.Join(s.processDue(ctx), s.deliverEvents(ctx, handle))
}

// processDue renews and ends the subscriptions that are due.
func (s *Sandbox) processDue(ctx context.Context) error {
	now := s.now()
	var due []subscriptionRow
	err := s.db.WithContext(ctx).Find(&due, "status <> 'canceled' AND (period_end <= ? OR status = 'incomplete' AND created_at <= ?)",
		database.Micros(now), database.Micros(now.Add(-firstPaymentTimeout))).Error
	if err != nil {
		return err
	}
	for _, row := range due {
		noChange := func(*Subscription, time.Time) ([]string, error) { return nil, nil }
		if err := s.updateSubscription(ctx, row.Customer, row.ID, noChange); err != nil {
			return err
		}
	}
	return nil
}

// deliverEvents delivers the pending events. A failing event does not hold up the others.
func (s *Sandbox) deliverEvents(ctx context.Context, handle func(context.Context, processor.Event) error) error {
	var due []eventRow
	err := s.db.WithContext(ctx).Order("at, id").Find(&due).Error
	for _, e := range due {
		eventErr := handle(ctx, processor.Event{ID: e.ID, Type: e.Kind, Subscription: e.Subscription})
		if eventErr == nil {
			eventErr = s.db.WithContext(ctx).Delete(&e).Error
		}
		err = errors.Join(err, eventErr)
	}
	return err
}
