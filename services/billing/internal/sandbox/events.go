package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"crypto/rand"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/processor"
)

// pollInterval is the time between checks for due renewals and between deliveries of an event that failed.
const pollInterval = time.Second

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

// Run renews and ends subscriptions when they are due, and delivers every event to handle until it succeeds. Events may arrive out of
// order and more than once. Run returns when ctx ends.
func (s *Sandbox) Run(ctx context.Context, log *slog.Logger, handle func(context.Context, processor.Event) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for failing := false; ; {
		err := errors.Join(s.processDue(ctx), s.deliverEvents(ctx, handle))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.ErrorContext(ctx, "sandbox failing, will retry", "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "sandbox recovered")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wakeup:
		}
	}
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
