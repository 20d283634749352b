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

// Kind is what a page is for.
type Kind string

const (
	Checkout Kind = "checkout" // one purchase
	Portal   Kind = "portal"   // what was bought before
)

// portalLife is how long a portal is of use. Who has its address may act on it, so it is not for good.
const portalLife = 24 * time.Hour

// Session is a page that somebody was sent to, with what it shows.
type Session struct {
	ID        string
	Kind      Kind
	ReturnURL string // without a query
	Account   string
	Plan      string
	USD       int
	Declines  bool // the card is refused when it is charged

	// Bought is what the purchase came to; nil until somebody tried to pay.
	Bought *Subscription
	// Subscriptions are all of the customer's, newest first; only a portal has them.
	Subscriptions []Subscription
}

// Checkout is a page on which a customer buys the plan. The same wish gets the same page.
func (s *Sandbox) Checkout(ctx context.Context, order processor.Order) (processor.Session, error) {
	if err := s.below(order.ReturnURL); err != nil {
		return processor.Session{}, err
	}
	var row sessionRow
	err := s.change(ctx, order.Customer, func(tx *gorm.DB, _ customerRow, now time.Time) error {
		err := tx.Delete(&sessionRow{}, "customer = ? AND expires_at <= ?", order.Customer, database.Micros(now)).Error
		if err != nil {
			return err
		}
		err = tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&sessionRow{
			ID: rand.Text(), Kind: Checkout, Customer: order.Customer, Attempt: order.Attempt, ReturnURL: order.ReturnURL,
			ExpiresAt: database.Micros(order.Until),
		}).Error
		if err != nil {
			return err
		}
		return tx.Take(&row, "customer = ? AND attempt = ?", order.Customer, order.Attempt).Error
	})
	return processor.Session{ID: row.ID, URL: s.address(row)}, err
}

// Portal is a page on which a customer sees and changes what was bought.
func (s *Sandbox) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	if err := s.below(returnURL); err != nil {
		return "", err
	}
	id := rand.Text()
	row := sessionRow{ID: id, Kind: Portal, Customer: customer, Attempt: id, ReturnURL: returnURL}
	err := s.change(ctx, customer, func(tx *gorm.DB, _ customerRow, now time.Time) error {
		row.ExpiresAt = database.Micros(now.Add(portalLife))
		return tx.Create(&row).Error
	})
	return s.address(row), err
}

func (s *Sandbox) address(row sessionRow) string {
	return s.public + Path + string(row.Kind) + "/" + row.ID
}

// session is one that is still of use; not_found where there is none.
func (s *Sandbox) session(tx *gorm.DB, kind Kind, id string) (sessionRow, error) {
	var row sessionRow
	err := tx.Take(&row, "id = ? AND kind = ? AND expires_at > ?", id, kind, database.Micros(s.now())).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = noSuchPage()
	}
	return row, database.Outage(err)
}

func noSuchPage() error {
	return problem.New(problem.NotFound, "There is no such page, or it is too old. Go back to your account, and start again from there.")
}

// Session is what a page shows.
func (s *Sandbox) Session(ctx context.Context, kind Kind, id string) (Session, error) {
	tx := s.db.WithContext(ctx)
	row, err := s.session(tx, kind, id)
	if err != nil {
		return Session{}, err
	}
	var c customerRow
	if err := tx.Take(&c, "id = ?", row.Customer).Error; err != nil {
		return Session{}, database.Outage(err)
	}
	shown := Session{
		ID: row.ID, Kind: row.Kind, ReturnURL: row.ReturnURL, Account: c.Account, Plan: s.plan.Name, USD: s.plan.MonthlyUSD, Declines: c.Declines,
	}
	if kind == Portal {
		shown.Subscriptions, err = load(tx, "s.customer = ?", c.ID)
		return shown, database.Outage(err)
	}
	if row.Subscription != "" {
		found, err := load(tx, "s.id = ?", row.Subscription)
		if err != nil {
			return Session{}, database.Outage(err)
		}
		shown.Bought = &found[0] // nothing is ever deleted
		if shown.Bought.givenUp() {
			return Session{}, noSuchPage()
		}
	}
	return shown, nil
}
