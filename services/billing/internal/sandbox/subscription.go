package sandbox

import (
	"crypto/rand"
	"slices"
	"time"

	"gorm.io/gorm"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/subscription"
)

// Status is the status of a subscription.
type Status string

const (
	Incomplete Status = "incomplete" // first payment not received; ends after firstPaymentTimeout
	Active     Status = "active"
	PastDue    Status = "past_due" // renewal unpaid; ends with the unpaid period
	Ended      Status = "ended"    // permanently
)

// Subscription is a subscription of the sandbox, paid or not.
type Subscription struct {
	ID                string
	Customer          string
	Account           string
	Status            Status
	CancelAtPeriodEnd bool
	CreatedAt         time.Time
	PeriodEnd         time.Time // when it renews or ends
	Invoices          []Invoice // newest first; never empty
}

// Invoice is the invoice of one period.
type Invoice struct {
	ID    string
	From  time.Time
	Until time.Time
	Paid  bool
}

// firstPaymentTimeout limits how long an incomplete subscription waits for its first payment.
const firstPaymentTimeout = 23 * time.Hour

func newSubscription(of customer, now time.Time) Subscription {
	s := Subscription{ID: "sub_sandbox_" + rand.Text(), Customer: of.ID, Account: of.Account, Status: Incomplete,
		CreatedAt: now}
	s.addInvoice(now)
	return s
}

func (s *Subscription) addInvoice(from time.Time) {
	in := Invoice{ID: "in_sandbox_" + rand.Text(), From: from, Until: monthAfter(from)}
	s.Invoices = slices.Insert(s.Invoices, 0, in)
	s.PeriodEnd = in.Until
}

func (s *Subscription) save(tx *gorm.DB) error {
	if err := put(tx, subscriptionKind, s.ID, s.Customer, s.due(), s); err != nil {
		return err
	}
	e := subscription.Event{ID: "evt_sandbox_" + rand.Text(), Type: "subscription.changed", Subscription: s.ID}
	return put(tx, eventKind, e.ID, "", time.Unix(0, 0), e)
}

func (s *Subscription) state(tier api.Tier) subscription.State {
	state := subscription.State{
		ID: s.ID, Customer: s.Customer, Account: s.Account, Tier: tier, Ended: s.Status == Ended,
		CancelAtPeriodEnd: s.CancelAtPeriodEnd, Failing: !s.Invoices[0].Paid,
	}
	if i := slices.IndexFunc(s.Invoices, func(in Invoice) bool { return in.Paid }); i >= 0 {
		state.Paid = &subscription.Payment{Invoice: s.Invoices[i].ID, Until: s.Invoices[i].Until}
	}
	return state
}

// endedUnpaid reports whether the subscription ended because the first payment never arrived.
func (s *Subscription) endedUnpaid() bool { return s.Status == Ended && s.state("").Paid == nil }

// due returns the time of the next change that processDue makes, or the zero time.
func (s *Subscription) due() time.Time {
	switch s.Status {
	case Ended:
		return time.Time{}
	case Incomplete:
		return s.CreatedAt.Add(firstPaymentTimeout)
	}
	return s.PeriodEnd
}

// processDue makes the changes that are due: it renews the subscription or ends it.
func (s *Subscription) processDue(declines bool, now time.Time) {
	for s.Status != Ended && !now.Before(s.due()) {
		if s.Status == Active && !s.CancelAtPeriodEnd {
			s.Renew(declines, now)
		} else {
			s.Status = Ended
		}
	}
}

// Renew begins the next period and charges it.
func (s *Subscription) Renew(declines bool, now time.Time) {
	s.addInvoice(s.PeriodEnd)
	s.charge(declines, now)
}

func (s *Subscription) charge(declines bool, now time.Time) {
	in := &s.Invoices[0]
	switch {
	case declines && s.Status == Incomplete:
		return
	case declines:
		s.Status = PastDue
		return
	case s.Status == Incomplete: // the paid period starts with the payment
		in.From, in.Until = now, monthAfter(now)
		s.PeriodEnd = in.Until
	}
	in.Paid, s.Status = true, Active
}

func (s *Subscription) setCancelAtPeriodEnd(cancel bool) error {
	if s.Status == Ended || s.Status == Incomplete {
		return problem.New(problem.InvalidParameter, "This subscription has ended or has not started.")
	}
	s.CancelAtPeriodEnd = cancel
	return nil
}

// moveClock moves the clock of the subscription forward. The caller processes what falls due. To
// the rest of the service, which uses the real clock, every time of the subscription moves into the
// past.
func (s *Subscription) moveClock(by time.Duration) error {
	if s.Status == Ended {
		return problem.New(problem.InvalidParameter, "This subscription has ended.")
	}
	s.CreatedAt, s.PeriodEnd = s.CreatedAt.Add(-by), s.PeriodEnd.Add(-by)
	for i := range s.Invoices {
		in := &s.Invoices[i]
		in.From, in.Until = in.From.Add(-by), in.Until.Add(-by)
	}
	return nil
}

// monthAfter returns the same day of the next month, or its last day if the month is too short.
func monthAfter(t time.Time) time.Time {
	next := t.AddDate(0, 1, 0)
	if next.Day() != t.Day() {
		next = next.AddDate(0, 0, -next.Day())
	}
	return next
}
