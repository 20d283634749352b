// Package sandbox is a payment processor that moves no money: it stands in for Stripe on one machine, in the same states and with the same
// announcements, so that everything around it runs as it does in earnest. It keeps what it knows in the tables sandbox_* of the
// service's database; package pages shows it to people.
//
// What it announces is kept with the change itself and told until it was taken in: at least once, and again after a crash.
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

// Path is what its pages lie under.
const Path = "/billing/sandbox/"

// Sandbox is the processor. Its errors are problem.Unavailable where the database is out of reach.
type Sandbox struct {
	db     *database.DB
	public string // without a trailing slash
	plan   api.Plan
	now    func() time.Time
	news   chan struct{} // holds one element while something may have to be announced
}

// New makes a sandbox whose pages browsers find below publicURL, which has no trailing slash.
func New(db *database.DB, publicURL string, now func() time.Time) *Sandbox {
	plan, _ := api.PlanOf(api.Commercial) // CheckOffer says where there is none
	return &Sandbox{db, publicURL, plan, now, make(chan struct{}, 1)}
}

// Customer is the customer for an account. The address is not kept: no mail is ever sent from here.
func (s *Sandbox) Customer(ctx context.Context, account, _, _ string) (string, error) {
	db := s.db.WithContext(ctx)
	err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&customerRow{ID: "cus_sandbox_" + rand.Text(), Account: account}).Error
	var row customerRow
	if err == nil {
		err = db.Take(&row, "account = ?", account).Error
	}
	return row.ID, database.Outage(err)
}

// Subscription is the whole state of one.
func (s *Sandbox) Subscription(ctx context.Context, id string) (subscription.State, error) {
	found, err := load(s.db.WithContext(ctx), "s.id = ?", id)
	if err != nil {
		return subscription.State{}, database.Outage(err)
	}
	if len(found) == 0 {
		return subscription.State{}, processor.ErrUnknown
	}
	return found[0].state(), nil
}

// Subscriptions are the ids of all of a customer's.
func (s *Sandbox) Subscriptions(ctx context.Context, customer string) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&subscriptionRow{}).Where("customer = ?", customer).Order("id").Pluck("id", &ids).Error
	return ids, database.Outage(err)
}

// SetCancel makes one end at its period's end, or takes that back.
func (s *Sandbox) SetCancel(ctx context.Context, id string, cancel bool) error {
	var row subscriptionRow
	err := s.db.WithContext(ctx).Take(&row, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return processor.ErrUnknown
	}
	if err != nil {
		return database.Outage(err)
	}
	return s.act(ctx, row.Customer, id, func(sub *Subscription, _ bool, _ time.Time) ([]string, error) { return sub.setCancel(cancel) })
}

// Charge has nothing to do: no invoice waits here. Each is charged when it is made.
func (s *Sandbox) Charge(context.Context, string) error { return nil }

// CheckOffer fails only where the plan table sells nothing: the price is read from it.
func (s *Sandbox) CheckOffer(context.Context) error {
	if s.plan.MonthlyUSD == 0 {
		return errors.New("the plan table has no price for the commercial tier")
	}
	return nil
}

// change does something to what a customer has, while nobody else does.
func (s *Sandbox) change(ctx context.Context, customer string, do func(tx *gorm.DB, c customerRow, now time.Time) error) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var c customerRow
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&c, "id = ?", customer).Error; err != nil {
			return err
		}
		return do(tx, c, s.now().UTC().Truncate(time.Microsecond))
	})
	if err == nil {
		s.wake()
	}
	return database.Outage(err)
}

// act changes one subscription of a customer, after what the clock asks for.
func (s *Sandbox) act(ctx context.Context, customer, id string, do func(sub *Subscription, declines bool, now time.Time) ([]string, error)) error {
	return s.change(ctx, customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		found, err := load(tx, "s.id = ? AND s.customer = ?", id, customer)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return processor.ErrUnknown
		}
		sub := found[0]
		told := sub.due(c.Declines, now)
		more, err := do(&sub, c.Declines, now)
		if err != nil {
			return err
		}
		told = append(append(told, more...), sub.due(c.Declines, now)...)
		return save(tx, sub, told, now)
	})
}

// below reports whether a browser that is sent to address stays on the gateway's pages: nobody can make a page of the sandbox send people
// elsewhere.
func (s *Sandbox) below(address string) error {
	public, err := url.Parse(s.public)
	if err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != public.Scheme || u.Host != public.Host || u.User != nil || !strings.HasPrefix(address, s.public+"/") {
		return fmt.Errorf("the address to return to is not below %s", s.public)
	}
	return nil
}
