// Package sandbox is a Stripe that moves no money: a stateful fake of the part of Stripe's API that
// billing uses. It replaces Stripe on one machine, and in tests. The service uses it through the
// same client as Stripe: requests through RoundTrip or ServeHTTP, and signed webhook events from
// Process. Package pages serves its checkout and portal.
//
// Like Stripe it rejects unknown parameters, repeats the response to a repeated idempotency key,
// returns ids instead of objects unless they are expanded, and leaves a renewal invoice in draft
// for an hour.
//
// Its objects are in billing's database. An event is stored in the same transaction as the change
// and delivered at least once, also after a crash.
package sandbox

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
)

// Path is the URL path prefix of the sandbox's pages.
const Path = "/billing/sandbox/"

// The API key that the sandbox accepts, and the price and product that it sells.
const (
	Key     = "sk_test_sandbox"
	Price   = "price_sandbox"
	Product = "prod_sandbox"
)

// Sandbox is a fake of Stripe. Its methods return problem.Unavailable during a database outage.
type Sandbox struct {
	Secret string // signs webhook events

	db        *database.DB
	publicURL string // without a trailing slash
	plan      api.TierInfo
	now       func() time.Time
	wakeup    chan struct{} // holds one element while events may be pending
	routes    *http.ServeMux
}

// New returns a sandbox whose pages are served below publicURL, which has no trailing slash.
func New(db *database.DB, publicURL string, now func() time.Time) *Sandbox {
	s := &Sandbox{
		Secret: "whsec_" + rand.Text(), db: db, publicURL: publicURL, plan: api.SoldPlan(), now: now,
		wakeup: make(chan struct{}, 1),
		routes: http.NewServeMux(),
	}
	s.addRoutes()
	return s
}

// transaction calls change in a transaction that excludes all other changes of the sandbox. now has
// the precision of Stripe, seconds.
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

// Update changes one subscription and stores an event of each returned type. It processes what is
// due before and after the change. It returns errNotFound if there is no such subscription.
func (s *Sandbox) Update(ctx context.Context, id string,
	change func(sub *Subscription, now time.Time) (events []string, err error)) error {
	return s.transaction(ctx, func(tx *gorm.DB, now time.Time) error { return update(tx, id, now, change) })
}

func update(tx *gorm.DB, id string, now time.Time, change func(sub *Subscription, now time.Time) (events []string,
	err error)) error {
	sub, err := get[Subscription](tx, subscriptionKind, id)
	if err != nil {
		return err
	}
	c, err := get[customer](tx, customerKind, sub.Customer)
	if err != nil {
		return err
	}
	events := sub.processDue(c.Declines, now)
	more, err := change(&sub, now)
	if err != nil {
		return err
	}
	events = append(append(events, more...), sub.processDue(c.Declines, now)...)
	return sub.save(tx, events)
}

// validReturnURL reports whether address is below publicURL. It prevents open redirects.
func (s *Sandbox) validReturnURL(address string) bool {
	public, err := url.Parse(s.publicURL)
	if err != nil {
		return false
	}
	u, err := url.Parse(address)
	return err == nil && u.Scheme == public.Scheme && u.Host == public.Host && u.User == nil &&
		strings.HasPrefix(address, s.publicURL+"/")
}
