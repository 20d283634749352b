package sandbox

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
)

// Pay pays for what a checkout sells, or tries to with a card that is refused. What was paid once is not paid again, from however many tabs.
func (s *Sandbox) Pay(ctx context.Context, id string, declines bool) error {
	found, err := s.session(s.db.WithContext(ctx), Checkout, id)
	if err != nil {
		return err
	}
	return s.change(ctx, found.Customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		row, err := s.session(tx, Checkout, id) // again, now that nobody else can pay on it
		if err != nil {
			return err
		}
		var sub Subscription
		var told []string
		if row.Subscription == "" {
			sub = begin(c.ID, c.Account, s.plan.MonthlyUSD, now)
			told = []string{created}
			if err := tx.Model(&row).Update("subscription", sub.ID).Error; err != nil {
				return err
			}
		} else {
			before, err := load(tx, "s.id = ?", row.Subscription)
			if err != nil {
				return err
			}
			switch sub = before[0]; {
			case sub.givenUp():
				return noSuchPage()
			case sub.Status != Incomplete:
				return nil
			}
		}
		told = append(told, sub.charge(declines, now)...)
		if !declines { // a card that has paid is kept for the renewals
			if err := tx.Model(&c).Update("declines", false).Error; err != nil {
				return err
			}
		}
		return save(tx, sub, told, now)
	})
}

// SetCard makes the customer of a portal's card be refused, or work. One that works again pays at once what is owed.
func (s *Sandbox) SetCard(ctx context.Context, id string, declines bool) error {
	found, err := s.session(s.db.WithContext(ctx), Portal, id)
	if err != nil {
		return err
	}
	return s.change(ctx, found.Customer, func(tx *gorm.DB, c customerRow, now time.Time) error {
		if err := tx.Model(&c).Update("declines", declines).Error; err != nil {
			return err
		}
		owing, err := load(tx, "s.customer = ? AND s.status = ?", c.ID, PastDue)
		if err != nil {
			return err
		}
		for _, sub := range owing {
			told := sub.due(declines, now)
			if !declines {
				told = append(told, sub.charge(false, now)...)
			}
			if err := save(tx, sub, told, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Act is what somebody does to a subscription on a portal.
type Act string

const (
	Cancel     Act = "cancel"
	Resume     Act = "resume"
	Refund     Act = "refund"
	DisputeIt  Act = "dispute"
	WinDispute Act = "win-dispute"
	Advance    Act = "advance"      // the clock, by a number of days
	AlmostEnd  Act = "almost-end"   // the clock, to shortly before the period's end
	PastTheEnd Act = "past-the-end" // the clock, to the period's end
)

// shortly before the end of a period, where somebody wants to see it end.
const shortly = 10 * time.Second

// maxDays bounds one move of the clock: each month of it makes an invoice.
const maxDays = 366

// Do does an act on a subscription of a portal's customer; days counts for Advance alone.
func (s *Sandbox) Do(ctx context.Context, id, subscriptionID string, act Act, days int) error {
	found, err := s.session(s.db.WithContext(ctx), Portal, id)
	if err != nil {
		return err
	}
	err = s.act(ctx, found.Customer, subscriptionID, func(sub *Subscription, _ bool, now time.Time) ([]string, error) {
		switch act {
		case Cancel, Resume:
			return sub.setCancel(act == Cancel)
		case Refund:
			return sub.refund()
		case DisputeIt:
			return sub.dispute()
		case WinDispute:
			return sub.winDispute()
		case Advance:
			if days < 1 || days > maxDays {
				return nil, problem.New(problem.InvalidParameter, "The clock moves by 1 to %d days.", maxDays)
			}
			return sub.move(time.Duration(days) * 24 * time.Hour)
		case AlmostEnd:
			return sub.move(sub.PeriodEnd.Sub(now) - shortly)
		case PastTheEnd:
			return sub.move(sub.PeriodEnd.Sub(now))
		}
		return nil, problem.New(problem.InvalidParameter, "There is no such act.")
	})
	if errors.Is(err, processor.ErrUnknown) {
		err = problem.New(problem.NotFound, "There is no such subscription.")
	}
	return err
}

// move ages a subscription that is not over. What falls due by that is done by act.
func (s *Subscription) move(by time.Duration) ([]string, error) {
	switch {
	case s.Status == Canceled:
		return nil, problem.New(problem.InvalidParameter, "This subscription is over.")
	case by <= 0:
		return nil, problem.New(problem.InvalidParameter, "That is behind the clock of this subscription already.")
	}
	s.age(by)
	return []string{updated}, nil
}
