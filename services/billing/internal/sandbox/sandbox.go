// Package sandbox is a payment processor that moves no money. It replaces Stripe on one machine:
// accounts buy on its checkout page, and its portal cancels and resumes, makes the card decline and
// moves the clock of a subscription.
//
// Its objects are in billing's database. An event is stored in the same transaction as the change
// and delivered at least once, also after a crash.
package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/billing/internal/subscription"
)

// Path is the URL path prefix of the sandbox's pages.
const Path = "/billing/sandbox/"

// Sandbox is a subscription.Processor.
type Sandbox struct {
	db        *database.DB
	publicURL string // without a trailing slash
	plan      api.TierInfo
	now       func() time.Time
	wakeup    chan struct{} // holds one element while events may be pending
}

// New returns a sandbox whose pages are served below publicURL, which has no trailing slash.
func New(db *database.DB, publicURL string, now func() time.Time) *Sandbox {
	return &Sandbox{db: db, publicURL: publicURL, plan: api.SoldPlan(), now: now, wakeup: make(chan struct{}, 1)}
}

// transaction calls change in a transaction that excludes all other changes of the sandbox. now is
// in full seconds.
func (s *Sandbox) transaction(ctx context.Context, change func(tx *gorm.DB, now time.Time) error) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&row{}, "kind = 'lock'").
			Error; err != nil {
			return err
		}
		return change(tx, s.time())
	})
	if err == nil {
		s.wake()
	}
	return database.Outage(err)
}

func (s *Sandbox) time() time.Time { return s.now().UTC().Truncate(time.Second) }

// Customer creates the account's customer. The email address is not stored, because the sandbox
// sends no mail.
func (s *Sandbox) Customer(ctx context.Context, account, _, attempt string) (id string, err error) {
	id = "cus_sandbox_" + attempt
	err = s.transaction(ctx, func(tx *gorm.DB, _ time.Time) error {
		_, err := get[customer](tx, customerKind, id)
		if errors.Is(err, subscription.ErrNotFound) {
			return customer{ID: id, Account: account}.save(tx)
		}
		return err
	})
	return id, err
}

// Checkout opens a checkout session.
func (s *Sandbox) Checkout(ctx context.Context, o subscription.Order) (url string, err error) {
	return s.open(ctx, session{
		ID: "cs_sandbox_" + o.Attempt, Kind: Checkout, Customer: o.Customer, SuccessURL: o.SuccessURL(),
		CancelURL: o.CancelURL(), ExpiresAt: o.ExpiresAt,
	})
}

// portalTTL limits the life of a portal session, because its URL alone gives access.
const portalTTL = 24 * time.Hour

// Portal opens a portal session.
func (s *Sandbox) Portal(ctx context.Context, customer, returnURL string) (url string, err error) {
	return s.open(ctx, session{
		ID: "bps_sandbox_" + rand.Text(), Kind: Portal, Customer: customer, SuccessURL: returnURL,
		ExpiresAt: s.time().Add(portalTTL),
	})
}

// open stores a session unless it exists, and returns the URL of its page. Addresses to return to
// must be below the public URL, so that a page is no open redirect.
func (s *Sandbox) open(ctx context.Context, made session) (url string, err error) {
	if !strings.HasPrefix(made.SuccessURL, s.publicURL+"/") {
		return "", fmt.Errorf("sandbox: return URL %q is not below %s", made.SuccessURL, s.publicURL)
	}
	err = s.transaction(ctx, func(tx *gorm.DB, _ time.Time) error {
		_, err := get[customer](tx, customerKind, made.Customer)
		if errors.Is(err, subscription.ErrNotFound) {
			return subscription.ErrNoCustomer
		}
		if err != nil {
			return err
		}
		_, err = get[session](tx, string(made.Kind), made.ID)
		if errors.Is(err, subscription.ErrNotFound) {
			return made.save(tx)
		}
		return err
	})
	return s.publicURL + Path + string(made.Kind) + "/" + made.ID, err
}

// ExpireCheckouts deletes every checkout session.
func (s *Sandbox) ExpireCheckouts(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).Delete(&row{}, "kind = ?", Checkout).Error)
}

// Subscription returns the state of a subscription.
func (s *Sandbox) Subscription(ctx context.Context, id string) (subscription.State, error) {
	found, err := get[Subscription](s.db.WithContext(ctx), subscriptionKind, id)
	if err != nil {
		return subscription.State{}, database.Outage(err)
	}
	return found.state(s.plan.Tier), nil
}

// Subscriptions lists the ids of the subscriptions of a customer or, if customer is empty, of all.
func (s *Sandbox) Subscriptions(ctx context.Context, customer string) (ids []string, err error) {
	found := s.db.WithContext(ctx).Model(&row{}).Where("kind = ?", subscriptionKind).Order("number DESC")
	if customer != "" {
		found = found.Where("customer = ?", customer)
	}
	return ids, database.Outage(found.Pluck("id", &ids).Error)
}

// SetCancelAtPeriodEnd cancels or resumes a subscription.
func (s *Sandbox) SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error {
	return s.Update(ctx, id, func(sub *Subscription) error { return sub.setCancelAtPeriodEnd(cancel) })
}

// Update changes one subscription and stores an event about it. It processes what is due before and
// after the change. It returns subscription.ErrNotFound if there is no such subscription.
func (s *Sandbox) Update(ctx context.Context, id string, change func(sub *Subscription) error) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error { return update(tx, id, now, change) })
}

func update(tx *gorm.DB, id string, now time.Time, change func(sub *Subscription) error) error {
	sub, err := get[Subscription](tx, subscriptionKind, id)
	if err != nil {
		return err
	}
	payer, err := get[customer](tx, customerKind, sub.Customer)
	if err != nil {
		return err
	}
	sub.processDue(payer.Declines, now)
	if err := change(&sub); err != nil {
		return err
	}
	sub.processDue(payer.Declines, now)
	return sub.save(tx)
}

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
