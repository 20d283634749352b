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

// turn is how often the clock is looked at, and how soon what was not taken in is told again.
const turn = time.Second

func announce(tx *gorm.DB, subscriptionID string, kinds []string, now time.Time) error {
	for i, kind := range kinds {
		at := database.Micros(now) + int64(i)
		if err := tx.Create(&eventRow{"evt_sandbox_" + rand.Text(), at, kind, subscriptionID}).Error; err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) wake() {
	select {
	case s.news <- struct{}{}:
	default: // somebody woke it already
	}
}

// Run renews and ends subscriptions as the clock asks for it, and tells takeIn of every change until it was taken in without an error, in
// no certain order and maybe more than once. It ends with ctx.
func (s *Sandbox) Run(ctx context.Context, log *slog.Logger, takeIn func(context.Context, processor.Event) error) error {
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for failing := false; ; {
		err := errors.Join(s.settle(ctx), s.tell(ctx, takeIn))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			log.ErrorContext(ctx, "sandbox fails", "error", err.Error())
		case err == nil && failing:
			log.InfoContext(ctx, "sandbox works again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.news:
		}
	}
}

// settle does what the clock asks for.
func (s *Sandbox) settle(ctx context.Context) error {
	now := s.now()
	var waiting []subscriptionRow
	err := s.db.WithContext(ctx).Find(&waiting, "status <> 'canceled' AND (period_end <= ? OR status = 'incomplete' AND created_at <= ?)",
		database.Micros(now), database.Micros(now.Add(-firstPaymentWithin))).Error
	if err != nil {
		return err
	}
	for _, row := range waiting {
		nothing := func(*Subscription, bool, time.Time) ([]string, error) { return nil, nil }
		if err := s.act(ctx, row.Customer, row.ID, nothing); err != nil {
			return err
		}
	}
	return nil
}

// tell hands over what is to be announced. What cannot be taken in keeps nothing else back.
func (s *Sandbox) tell(ctx context.Context, takeIn func(context.Context, processor.Event) error) error {
	var waiting []eventRow
	err := s.db.WithContext(ctx).Order("at, id").Find(&waiting).Error
	for _, e := range waiting {
		failed := takeIn(ctx, processor.Event{ID: e.ID, Kind: e.Kind, Subscription: e.Subscription})
		if failed == nil {
			failed = s.db.WithContext(ctx).Delete(&e).Error
		}
		err = errors.Join(err, failed)
	}
	return err
}
