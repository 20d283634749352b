package sandbox

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/subscription"
)

// Status is the status of a subscription, with Stripe's names.
type Status string

const (
	Incomplete Status = "incomplete" // first payment not received
	Active     Status = "active"
	PastDue    Status = "past_due" // renewal unpaid; ends with the unpaid period
	Canceled   Status = "canceled" // ended permanently
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

// Invoice is the invoice of one period. It is charged when it is created.
type Invoice struct {
	ID       string
	USD      int
	From     time.Time
	Until    time.Time
	Paid     bool
	Refunded bool // in full
	Dispute  Dispute
}

// Dispute is the state of a payment dispute.
type Dispute string

const (
	NoDispute   Dispute = ""
	OpenDispute Dispute = "open"
	WonDispute  Dispute = "won" // by the operator, who keeps the payment
)

// firstPaymentTimeout limits how long an incomplete subscription waits for its first payment.
const firstPaymentTimeout = 23 * time.Hour

// Event types, with Stripe's names.
const (
	created      = "customer.subscription.created"
	updated      = "customer.subscription.updated"
	deleted      = "customer.subscription.deleted"
	invoicePaid  = "invoice.paid"
	chargeFailed = "invoice.payment_failed"
	refunded     = "charge.refunded"
	disputed     = "charge.dispute.created"
	disputeEnded = "charge.dispute.closed"
)

// newSubscription returns a subscription with an uncharged invoice for its first period.
func newSubscription(customer, account string, usd int, now time.Time) Subscription {
	s := Subscription{
		// Ids sort by creation, whatever the clock of a subscription is moved to.
		ID:       "sub_sandbox_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", ""),
		Customer: customer, Account: account, Status: Incomplete, CreatedAt: now, PeriodEnd: monthAfter(now),
	}
	s.addInvoice(now, usd)
	return s
}

func (s *Subscription) addInvoice(from time.Time, usd int) {
	in := Invoice{ID: "in_sandbox_" + rand.Text(), USD: usd, From: from, Until: monthAfter(from)}
	s.Invoices = append([]Invoice{in}, s.Invoices...)
	s.PeriodEnd = in.Until
}

// charge attempts to charge the newest invoice and returns the events. Older unpaid invoices are not charged again.
func (s *Subscription) charge(declines bool, now time.Time) (events []string) {
	newest := &s.Invoices[0]
	switch {
	case newest.Paid || s.Status == Canceled:
		return nil
	case declines && s.Status == Incomplete:
		return []string{chargeFailed}
	case declines:
		s.Status = PastDue
		return []string{chargeFailed, updated}
	}
	if s.Status == Incomplete { // the paid period starts with the payment
		newest.From, newest.Until = now, monthAfter(now)
		s.PeriodEnd = newest.Until
	}
	newest.Paid, s.Status = true, Active
	return []string{updated, invoicePaid}
}

// processDue renews the subscription for every period that has ended, or ends it, and returns the events.
func (s *Subscription) processDue(declines bool, now time.Time) (events []string) {
	if s.Status == Incomplete && !now.Before(s.CreatedAt.Add(firstPaymentTimeout)) {
		s.Status = Canceled
		return []string{updated}
	}
	for (s.Status == Active || s.Status == PastDue) && !now.Before(s.PeriodEnd) {
		if s.CancelAtPeriodEnd || s.Status == PastDue {
			s.Status = Canceled
			return append(events, deleted)
		}
		s.addInvoice(s.PeriodEnd, s.Invoices[0].USD)
		events = append(events, s.charge(declines, now)...)
	}
	return events
}

// setCancelAtPeriodEnd schedules the end of the subscription, or removes that schedule.
func (s *Subscription) setCancelAtPeriodEnd(cancel bool) (events []string, err error) {
	if s.Status != Active && s.Status != PastDue {
		return nil, problem.New(problem.InvalidParameter, "This subscription has ended or has not started.")
	}
	if s.CancelAtPeriodEnd == cancel {
		return nil, nil
	}
	s.CancelAtPeriodEnd = cancel
	return []string{updated}, nil
}

// LatestPaid returns the newest paid invoice, the one that can be refunded or disputed, or nil if there is none.
func (s Subscription) LatestPaid() *Invoice {
	for i := range s.Invoices {
		if s.Invoices[i].Paid {
			return &s.Invoices[i]
		}
	}
	return nil
}

func (s *Subscription) refund() (events []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Refunded || in.Dispute == OpenDispute {
		return nil, problem.New(problem.InvalidParameter, "No payment can be refunded.")
	}
	in.Refunded = true
	return []string{refunded}, nil
}

func (s *Subscription) dispute() (events []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Refunded || in.Dispute != NoDispute {
		return nil, problem.New(problem.InvalidParameter, "No payment can be disputed.")
	}
	in.Dispute = OpenDispute
	return []string{disputed}, nil
}

func (s *Subscription) winDispute() (events []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Dispute != OpenDispute {
		return nil, problem.New(problem.InvalidParameter, "No payment is in dispute.")
	}
	in.Dispute = WonDispute
	return []string{disputeEnded}, nil
}

// abandoned reports whether the subscription ended without any payment. Its checkout session is closed then.
func (s *Subscription) abandoned() bool { return s.Status == Canceled && s.LatestPaid() == nil }

// shiftBack moves every time of the subscription into the past. To the rest of the service, which uses the real clock, its clock has moved
// forward.
func (s *Subscription) shiftBack(by time.Duration) {
	s.CreatedAt, s.PeriodEnd = s.CreatedAt.Add(-by), s.PeriodEnd.Add(-by)
	for i := range s.Invoices {
		in := &s.Invoices[i]
		in.From, in.Until = in.From.Add(-by), in.Until.Add(-by)
	}
}

// state converts the subscription to the form that processors return.
func (s *Subscription) state() subscription.State {
	state := subscription.State{
		ID: s.ID, Customer: s.Customer, Account: s.Account, Tier: api.SoldPlan().Tier,
		Ended: s.Status == Canceled, CancelAtPeriodEnd: s.CancelAtPeriodEnd,
	}
	in := s.LatestPaid()
	state.Failing = !s.Invoices[0].Paid && (in != nil || !state.Ended) // an abandoned first payment is not failing
	if in != nil {
		state.Paid = &subscription.Payment{Invoice: in.ID, Until: in.Until, Refunded: in.Refunded, Disputed: in.Dispute == OpenDispute}
	}
	return state
}

// monthAfter returns the same day of the next month, or its last day if the month is too short.
func monthAfter(t time.Time) time.Time {
	next := t.AddDate(0, 1, 0)
	if next.Day() != t.Day() {
		next = next.AddDate(0, 0, -next.Day())
	}
	return next
}
