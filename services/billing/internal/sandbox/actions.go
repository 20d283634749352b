package sandbox

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
)

// Session is a checkout or portal session with the data its page shows.
type Session struct {
	ID         string
	Kind       Kind
	SuccessURL string // of a portal: where it returns to
	CancelURL  string
	Account    string
	Plan       string
	USD        int
	Declines   bool // the card is declined when it is charged

	// Subscription is the subscription of a checkout; nil before the first payment attempt.
	Subscription *Subscription
	// Subscriptions are all subscriptions of a portal's customer, newest first.
	Subscriptions []Subscription
}

func errPageNotFound() error {
	return problem.New(problem.NotFound,
		"This page does not exist or has expired. Go back to your account and start again.")
}

func (s *Sandbox) findSession(tx *gorm.DB, kind Kind, id string) (session, error) {
	found, err := get[session](tx, sessionKind, id)
	if errors.Is(err, errNotFound) || err == nil && (found.Kind != kind || found.Expired ||
		!found.ExpiresAt.After(s.time())) {
		err = errPageNotFound()
	}
	return found, err
}

// Session returns the data of a page, or not_found if the session is unknown, expired or abandoned.
func (s *Sandbox) Session(ctx context.Context, kind Kind, id string) (Session, error) {
	page, err := s.readSession(s.db.WithContext(ctx), kind, id)
	return page, database.Outage(err)
}

func (s *Sandbox) readSession(tx *gorm.DB, kind Kind, id string) (Session, error) {
	found, err := s.findSession(tx, kind, id)
	if err != nil {
		return Session{}, err
	}
	owner, err := get[customer](tx, customerKind, found.Customer)
	if err != nil {
		return Session{}, err
	}
	page := Session{
		ID: found.ID, Kind: found.Kind, SuccessURL: found.SuccessURL, CancelURL: found.CancelURL,
		Account: owner.Metadata["account"],
		Plan:    s.plan.Name, USD: s.plan.MonthlyUSD, Declines: owner.Declines,
	}
	switch {
	case kind == Portal:
		page.Subscriptions, err = list[Subscription](tx, "kind = ? AND customer = ?", subscriptionKind, owner.ID)
	case found.Subscription != "":
		var sub Subscription
		sub, err = get[Subscription](tx, subscriptionKind, found.Subscription)
		page.Subscription = &sub
		if err == nil && sub.Status == IncompleteExpired {
			err = errPageNotFound()
		}
	}
	return page, err
}

// Pay pays a checkout session, or fails to if the card declines. A session is paid at most once,
// even from several tabs.
func (s *Sandbox) Pay(ctx context.Context, id string, declines bool) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		found, err := s.findSession(tx, Checkout, id)
		if err != nil {
			return err
		}
		buyer, err := get[customer](tx, customerKind, found.Customer)
		if err != nil {
			return err
		}
		var sub Subscription
		var events []string
		if found.Subscription == "" {
			sub, events = newSubscription(buyer.ID, found.Metadata, s.plan.MonthlyUSD, now), []string{created}
			found.Subscription = sub.ID
		} else if sub, err = get[Subscription](tx, subscriptionKind, found.Subscription); err != nil {
			return err
		}
		switch sub.Status {
		case IncompleteExpired:
			return errPageNotFound()
		case Incomplete:
		default: // paid in another tab
			return nil
		}
		err = sub.save(tx, append(events, sub.Charge(declines, now)...))
		if err == nil && !declines { // the card is stored for renewals
			buyer.Declines, found.Complete = false, true
			err = errors.Join(buyer.save(tx), storeEvent(tx, completed, s.sessionObject(found, now)))
		}
		return errors.Join(err, found.save(tx))
	})
}

// SetCard makes the card of a portal's customer work or decline. A card that works again pays
// past-due subscriptions immediately.
func (s *Sandbox) SetCard(ctx context.Context, id string, declines bool) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		found, err := s.findSession(tx, Portal, id)
		if err != nil {
			return err
		}
		return setCard(tx, found.Customer, declines, now)
	})
}

func setCard(tx *gorm.DB, customerID string, declines bool, now time.Time) error {
	owner, err := get[customer](tx, customerKind, customerID)
	if err != nil {
		return err
	}
	owner.Declines = declines
	if err := owner.save(tx); err != nil {
		return err
	}
	all, err := list[Subscription](tx, "kind = ? AND customer = ?", subscriptionKind, owner.ID)
	if err != nil {
		return err
	}
	for _, sub := range all {
		if sub.Status != PastDue {
			continue
		}
		events := sub.processDue(declines, now)
		if !declines {
			events = append(events, sub.Charge(false, now)...)
		}
		if err := sub.save(tx, events); err != nil {
			return err
		}
	}
	return nil
}

// Action is an operation on a subscription that the portal offers.
type Action string

const (
	Cancel      Action = "cancel"
	Resume      Action = "resume"
	Advance     Action = "advance"      // moves the clock by a number of days
	ToPeriodEnd Action = "past-the-end" // moves the clock to the end of the period
)

// maxDays limits how far one action moves the clock. Each month creates an invoice.
const maxDays = 366

// Perform performs an action on a subscription of a portal's customer. Only Advance uses days.
func (s *Sandbox) Perform(ctx context.Context, id, subscriptionID string, action Action, days int) error {
	err := s.transaction(ctx, func(tx *gorm.DB, now time.Time) error {
		found, err := s.findSession(tx, Portal, id)
		if err != nil {
			return err
		}
		return update(tx, subscriptionID, now, func(sub *Subscription, now time.Time) ([]string, error) {
			if sub.Customer != found.Customer {
				return nil, errNotFound
			}
			return sub.perform(action, days, now)
		})
	})
	if errors.Is(err, errNotFound) {
		err = problem.New(problem.NotFound, "Subscription not found.")
	}
	return err
}

func (s *Subscription) perform(action Action, days int, now time.Time) (events []string, err error) {
	switch action {
	case Cancel, Resume:
		return s.SetCancelAtPeriodEnd(action == Cancel)
	case Advance:
		if days < 1 || days > maxDays {
			return nil, problem.New(problem.InvalidParameter, "Enter a number of days from 1 to %d.", maxDays)
		}
		return s.moveClock(time.Duration(days) * 24 * time.Hour)
	case ToPeriodEnd:
		return s.moveClock(s.PeriodEnd.Sub(now))
	}
	return nil, problem.New(problem.InvalidParameter, "Unknown action.")
}
