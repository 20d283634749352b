package sandbox

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
)

// Pay pays a checkout session, or fails to if the card declines. A session is paid at most once, even from several tabs.
func (s *Sandbox) Pay(ctx context.Context, id string, declines bool) error {
	session, err := s.findSession(s.db.WithContext(ctx), Checkout, id)
	if err != nil {
		return err
	}
	return s.withCustomer(ctx, session.Customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		row, err := s.findSession(tx, Checkout, id) // again, now that the customer is locked
		if err != nil {
			return err
		}
		var sub Subscription
		var events []string
		if row.Subscription == "" {
			sub = newSubscription(c.ID, c.Account, s.plan.MonthlyUSD, now)
			events = []string{created}
			if err := tx.Model(&row).Update("subscription", sub.ID).Error; err != nil {
				return err
			}
		} else {
			before, err := load(tx, "s.id = ?", row.Subscription)
			if err != nil {
				return err
			}
			switch sub = before[0]; {
			case sub.abandoned():
				return errPageNotFound()
			case sub.Status != Incomplete:
				return nil
			}
		}
		events = append(events, sub.charge(declines, now)...)
		if !declines { // the card is stored for renewals
			if err := tx.Model(&c).Update("declines", false).Error; err != nil {
				return err
			}
		}
		return save(tx, sub, events, now)
	})
}

// SetCard makes the card of a portal's customer work or decline. A card that works again pays past-due subscriptions immediately.
func (s *Sandbox) SetCard(ctx context.Context, id string, declines bool) error {
	session, err := s.findSession(s.db.WithContext(ctx), Portal, id)
	if err != nil {
		return err
	}
	return s.withCustomer(ctx, session.Customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		if err := tx.Model(&c).Update("declines", declines).Error; err != nil {
			return err
		}
		pastDue, err := load(tx, "s.customer = ? AND s.status = ?", c.ID, PastDue)
		if err != nil {
			return err
		}
		for _, sub := range pastDue {
			events := sub.processDue(declines, now)
			if !declines {
				events = append(events, sub.charge(false, now)...)
			}
			if err := save(tx, sub, events, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Action is an operation on a subscription that the portal offers.
type Action string

const (
	Cancel         Action = "cancel"
	Resume         Action = "resume"
	Refund         Action = "refund"
	DisputePayment Action = "dispute"
	WinDispute     Action = "win-dispute"
	Advance        Action = "advance"      // moves the clock by a number of days
	NearPeriodEnd  Action = "almost-end"   // moves the clock to 10 seconds before the end of the period
	ToPeriodEnd    Action = "past-the-end" // moves the clock to the end of the period
)

const nearPeriodEnd = 10 * time.Second

// maxDays limits how far one action moves the clock. Each month creates an invoice.
const maxDays = 366

// Perform performs an action on a subscription of a portal's customer. Only Advance uses days.
func (s *Sandbox) Perform(ctx context.Context, id, subscriptionID string, action Action, days int) error {
	session, err := s.findSession(s.db.WithContext(ctx), Portal, id)
	if err != nil {
		return err
	}
	err = s.updateSubscription(ctx, session.Customer, subscriptionID, func(sub *Subscription, now time.Time) ([]string, error) {
		switch action {
		case Cancel, Resume:
			return sub.setCancelAtPeriodEnd(action == Cancel)
		case Refund:
			return sub.refund()
		case DisputePayment:
			return sub.dispute()
		case WinDispute:
			return sub.winDispute()
		case Advance:
			if days < 1 || days > maxDays {
				return nil, problem.New(problem.InvalidParameter, "Enter a number of days from 1 to %d.", maxDays)
			}
			return sub.moveClock(time.Duration(days) * 24 * time.Hour)
		case NearPeriodEnd:
			return sub.moveClock(sub.PeriodEnd.Sub(now) - nearPeriodEnd)
		case ToPeriodEnd:
			return sub.moveClock(sub.PeriodEnd.Sub(now))
		}
		return nil, problem.New(problem.InvalidParameter, "Unknown action.")
	})
	if errors.Is(err, processor.ErrNotFound) {
		err = problem.New(problem.NotFound, "Subscription not found.")
	}
	return err
}

// moveClock moves the clock of a subscription forward. The caller processes what falls due.
func (s *Subscription) moveClock(by time.Duration) ([]string, error) {
	switch {
	case s.Status == Canceled:
		return nil, problem.New(problem.InvalidParameter, "This subscription has ended.")
	case by <= 0:
		return nil, problem.New(problem.InvalidParameter, "The clock of this subscription is already past that time.")
	}
	s.shiftBack(by)
	return []string{updated}, nil
}
