package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
)

// Kind is the type of a session.
type Kind string

const (
	Checkout Kind = "checkout" // one purchase
	Portal   Kind = "portal"   // existing subscriptions
)

// portalTTL limits the life of a portal session, because its URL alone gives access.
const portalTTL = 24 * time.Hour

// Session is a checkout or portal session with the data its page shows.
type Session struct {
	ID        string
	Kind      Kind
	ReturnURL string // without a query
	Account   string
	Plan      string
	USD       int
	Declines  bool // the card is declined when it is charged

	// Subscription is the subscription of a checkout; nil before the first payment attempt.
	Subscription *Subscription
	// Subscriptions are all subscriptions of a portal's customer, newest first.
	Subscriptions []Subscription
}

// Checkout returns the checkout session of an order, creating it for the first order of a purchase attempt.
func (s *Sandbox) Checkout(ctx context.Context, order processor.Order) (processor.Session, error) {
	if err := s.checkReturnURL(order.ReturnURL); err != nil {
		return processor.Session{}, err
	}
	var row sessionRow
	err := s.withCustomer(ctx, order.Customer, func(tx *gorm.DB, _ customerRow, now time.Time) error {
		err := tx.Delete(&sessionRow{}, "customer = ? AND expires_at <= ?", order.Customer, database.Micros(now)).Error
		if err != nil {
			return err
		}
		err = tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&sessionRow{
			ID: rand.Text(), Kind: Checkout, Customer: order.Customer, Attempt: order.Attempt, ReturnURL: order.ReturnURL,
			ExpiresAt: database.Micros(order.ExpiresAt),
		}).Error
		if err != nil {
			return err
		}
		return tx.Take(&row, "customer = ? AND attempt = ?", order.Customer, order.Attempt).Error
	})
	return processor.Session{ID: row.ID, URL: s.sessionURL(row)}, err
}

// ExpireCheckouts closes every checkout session.
func (s *Sandbox) ExpireCheckouts(ctx context.Context) error {
	now := database.Micros(s.now())
	return database.Outage(s.db.WithContext(ctx).Model(&sessionRow{}).Where("kind = ? AND expires_at > ?", Checkout, now).Update("expires_at", now).Error)
}

// Portal creates a portal session and returns its URL.
func (s *Sandbox) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	if err := s.checkReturnURL(returnURL); err != nil {
		return "", err
	}
	id := rand.Text()
	row := sessionRow{ID: id, Kind: Portal, Customer: customer, Attempt: id, ReturnURL: returnURL}
	err := s.withCustomer(ctx, customer, func(tx *gorm.DB, _ customerRow, now time.Time) error {
		row.ExpiresAt = database.Micros(now.Add(portalTTL))
		return tx.Create(&row).Error
	})
	return s.sessionURL(row), err
}

func (s *Sandbox) sessionURL(row sessionRow) string {
	return s.publicURL + Path + string(row.Kind) + "/" + row.ID
}

// findSession returns a session that has not expired, or not_found.
func (s *Sandbox) findSession(tx *gorm.DB, kind Kind, id string) (sessionRow, error) {
	var row sessionRow
	err := tx.Take(&row, "id = ? AND kind = ? AND expires_at > ?", id, kind, database.Micros(s.now())).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = errPageNotFound()
	}
	return row, database.Outage(err)
}

func errPageNotFound() error {
	return problem.New(problem.NotFound, "This page does not exist or has expired. Go back to your account and start again.")
}

// Session returns the data of a page, or not_found if the session is unknown, expired or abandoned.
func (s *Sandbox) Session(ctx context.Context, kind Kind, id string) (Session, error) {
	tx := s.db.WithContext(ctx)
	row, err := s.findSession(tx, kind, id)
	if err != nil {
		return Session{}, err
	}
	var c customerRow
	if err := tx.Take(&c, "id = ?", row.Customer).Error; err != nil {
		return Session{}, database.Outage(err)
	}
	session := Session{
		ID: row.ID, Kind: row.Kind, ReturnURL: row.ReturnURL, Account: c.Account, Plan: s.plan.Name, USD: s.plan.MonthlyUSD, Declines: c.Declines,
	}
	if kind == Portal {
		session.Subscriptions, err = load(tx, "s.customer = ?", c.ID)
		return session, database.Outage(err)
	}
	if row.Subscription != "" {
		found, err := load(tx, "s.id = ?", row.Subscription)
		if err != nil {
			return Session{}, database.Outage(err)
		}
		session.Subscription = &found[0] // subscriptions are never deleted
		if session.Subscription.abandoned() {
			return Session{}, errPageNotFound()
		}
	}
	return session, nil
}
