package sandbox

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/subscription"
)

// Session is a checkout or portal session with the data its page shows.
type Session struct {
	session

	Account  string
	Plan     string
	USD      int  // a month
	Declines bool // the card is declined when it is charged

	// Subscription is the subscription of a checkout; nil before the first payment attempt.
	Subscription *Subscription
	// Subscriptions are all subscriptions of a portal's customer, newest first.
	Subscriptions []Subscription
}

func errPageNotFound() error {
	return problem.New(problem.NotFound,
		"This page does not exist or has expired. Go back to your account and start again.")
}

// Session returns the data of a page, or not_found if the session is unknown, expired or abandoned.
func (s *Sandbox) Session(ctx context.Context, kind Kind, id string) (Session, error) {
	page, _, err := s.find(s.db.WithContext(ctx), kind, id)
	return page, database.Outage(err)
}

func (s *Sandbox) find(tx *gorm.DB, kind Kind, id string) (page Session, owner customer, err error) {
	found, err := get[session](tx, string(kind), id)
	if errors.Is(err, subscription.ErrNotFound) || err == nil && !found.ExpiresAt.After(s.time()) {
		err = errPageNotFound()
	}
	if err != nil {
		return page, owner, err
	}
	if owner, err = get[customer](tx, customerKind, found.Customer); err != nil {
		return page, owner, err
	}
	page = Session{session: found, Account: owner.Account, Plan: s.plan.Name, USD: s.plan.MonthlyUSD,
		Declines: owner.Declines}
	switch {
	case kind == Portal:
		page.Subscriptions, err = list[Subscription](tx, "kind = ? AND customer = ?", subscriptionKind, owner.ID)
	case found.Bought != "":
		var bought Subscription
		bought, err = get[Subscription](tx, subscriptionKind, found.Bought)
		if err == nil && bought.endedUnpaid() {
			err = errPageNotFound()
		}
		page.Subscription = &bought
	}
	return page, owner, err
}

// Pay pays a checkout session, or fails to if the card declines. A session is paid at most once,
// even from several tabs.
func (s *Sandbox) Pay(ctx context.Context, id string, declines bool) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		page, buyer, err := s.find(tx, Checkout, id)
		if err != nil {
			return err
		}
		if page.Subscription == nil {
			bought := newSubscription(buyer, now)
			page.Subscription, page.Bought = &bought, bought.ID
		}
		if page.Subscription.Status != Incomplete { // paid in another tab
			return nil
		}
		page.Subscription.charge(declines, now)
		buyer.Declines = buyer.Declines && declines // a card that works is stored for renewals
		return errors.Join(buyer.save(tx), page.Subscription.save(tx), page.save(tx))
	})
}

// SetCard makes the card of a portal's customer work or decline. A card that works again pays
// past-due subscriptions immediately.
func (s *Sandbox) SetCard(ctx context.Context, id string, declines bool) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		page, owner, err := s.find(tx, Portal, id)
		if err != nil {
			return err
		}
		owner.Declines = declines
		err = owner.save(tx)
		for _, sub := range page.Subscriptions {
			if sub.Status == PastDue && !declines {
				sub.charge(false, now)
				err = errors.Join(err, sub.save(tx))
			}
		}
		return err
	})
}

// Action is an operation on a subscription that the portal offers.
type Action string

const (
	Cancel  Action = "cancel"
	Resume  Action = "resume"
	Advance Action = "advance" // moves the clock to the end of the period
)

// Perform performs an action on a subscription of a portal's customer.
func (s *Sandbox) Perform(ctx context.Context, id, subscriptionID string, action Action) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		_, owner, err := s.find(tx, Portal, id)
		if err != nil {
			return err
		}
		err = update(tx, subscriptionID, now, func(sub *Subscription) error {
			if sub.Customer != owner.ID {
				return subscription.ErrNotFound
			}
			return sub.perform(action, now)
		})
		if errors.Is(err, subscription.ErrNotFound) {
			err = problem.New(problem.NotFound, "Subscription not found.")
		}
		return err
	})
}

func (s *Subscription) perform(action Action, now time.Time) error {
	switch action {
	case Cancel, Resume:
		return s.setCancelAtPeriodEnd(action == Cancel)
	case Advance:
		return s.moveClock(s.PeriodEnd.Sub(now))
	}
	return problem.New(problem.InvalidParameter, "Unknown action.")
}
