// Package sandbox is a payment processor that moves no money. It replaces Stripe on one machine and has the same states and events, so the
// rest of the service runs as in production. Its data is in the sandbox_* tables of billing's database; package pages serves its web pages.
//
// An event is stored in the same transaction as the change and delivered at least once, also after a crash.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/subscription"
)

// Path is the URL path prefix of the sandbox's pages.
const Path = "/billing/sandbox/"

// Sandbox is a processor.Processor. Its methods return problem.Unavailable during a database outage.
type Sandbox struct {
	db        *database.DB
	publicURL string // without a trailing slash
	plan      api.Plan
	now       func() time.Time
	wakeup    chan struct{} // holds one element while events may be pending
}

// New returns a sandbox whose pages are served below publicURL, which has no trailing slash.
func New(db *database.DB, publicURL string, now func() time.Time) *Sandbox {
	return &Sandbox{db, publicURL, api.SoldPlan(), now, make(chan struct{}, 1)}
}

// Customer returns the account's customer, creating one if there is none. The e-mail address is not stored, because the sandbox sends no
// mail.
func (s *Sandbox) Customer(ctx context.Context, account, _, _ string) (string, error) {
	db := s.db.WithContext(ctx)
	err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&customerRow{ID: "cus_sandbox_" + rand.Text(), Account: account}).Error
	var row customerRow
	if err == nil {
		err = db.Take(&row, "account = ?", account).Error
	}
	return row.ID, database.Outage(err)
}

// Subscription returns the state of a subscription.
func (s *Sandbox) Subscription(ctx context.Context, id string) (subscription.State, error) {
	found, err := load(s.db.WithContext(ctx), "s.id = ?", id)
	if err != nil {
		return subscription.State{}, database.Outage(err)
	}
	if len(found) == 0 {
		return subscription.State{}, processor.ErrNotFound
	}
	return found[0].state(), nil
}

// Subscriptions lists the ids of a customer's subscriptions.
func (s *Sandbox) Subscriptions(ctx context.Context, customer string) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&subscriptionRow{}).Where("customer = ?", customer).Order("id").Pluck("id", &ids).Error
	return ids, database.Outage(err)
}

// AccountSubscriptions lists the ids of all subscriptions: each is one of an account.
func (s *Sandbox) AccountSubscriptions(ctx context.Context) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&subscriptionRow{}).Order("id").Pluck("id", &ids).Error
	return ids, database.Outage(err)
}

// SetCancelAtPeriodEnd schedules a subscription to end with its current period, or removes that schedule.
func (s *Sandbox) SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error {
	var row subscriptionRow
	err := s.db.WithContext(ctx).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return processor.ErrNotFound
	}
	if err != nil {
		return database.Outage(err)
	}
	return s.updateSubscription(ctx, row.Customer, id, func(sub *Subscription, _ time.Time) ([]string, error) {
		return sub.setCancelAtPeriodEnd(cancel)
	})
}

// Charge does nothing: the sandbox charges invoices when it creates them, so none is ever pending.
func (s *Sandbox) Charge(context.Context, string) error { return nil }

// CheckOffer does nothing: the sandbox sells the plan of the plan table at its price.
func (s *Sandbox) CheckOffer(context.Context) error { return nil }

// withCustomer calls change in a transaction that holds the customer's lock.
func (s *Sandbox) withCustomer(ctx context.Context, customer string, change func(tx *gorm.DB, c customerRow, now time.Time) error) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var c customerRow
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&c, "id = ?", customer).Error; err != nil {
			return err
		}
		return change(tx, c, s.now().UTC().Truncate(time.Microsecond))
	})
	if err == nil {
		s.wake()
	}
	return database.Outage(err)
}

// updateSubscription changes one subscription of a customer. It processes what is due before and after the change.
func (s *Sandbox) updateSubscription(ctx context.Context, customer, id string, change func(sub *Subscription, now time.Time) ([]string, error)) error {
	return s.withCustomer(ctx, customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		found, err := load(tx, "s.id = ? AND s.customer = ?", id, customer)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return processor.ErrNotFound
		}
		sub := found[0]
		events := sub.processDue(c.Declines, now)
		more, err := change(&sub, now)
		if err != nil {
			return err
		}
		events = append(append(events, more...), sub.processDue(c.Declines, now)...)
		return save(tx, sub, events, now)
	})
}

// checkReturnURL returns an error unless address is below publicURL. It prevents open redirects.
func (s *Sandbox) checkReturnURL(address string) error {
	public, err := url.Parse(s.publicURL)
	if err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != public.Scheme || u.Host != public.Host || u.User != nil || !strings.HasPrefix(address, s.publicURL+"/") {
		return fmt.Errorf("return URL is not below %s", s.publicURL)
	}
	return nil
}
