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

// Status is where a subscription stands, in Stripe's words.
type Status string

const (
	Incomplete Status = "incomplete" // its first payment has not come
	Active     Status = "active"
	PastDue    Status = "past_due" // a renewal was not paid; it ends with the period that was not
	Canceled   Status = "canceled" // over, for good
)

// Subscription is one that was bought here, or was tried to be.
type Subscription struct {
	ID                string
	Customer          string
	Account           string
	Status            Status
	CancelAtPeriodEnd bool
	CreatedAt         time.Time
	PeriodEnd         time.Time // when it is charged again, or ends
	Invoices          []Invoice // newest first, and never empty
}

// Invoice asks for the price of one period, which is tried to be charged as soon as it is made.
type Invoice struct {
	ID       string
	USD      int
	From     time.Time
	Until    time.Time
	Paid     bool
	Refunded bool // all of it
	Dispute  Dispute
}

// Dispute is what the holder of the card says against a payment at their bank.
type Dispute string

const (
	NoDispute   Dispute = ""
	OpenDispute Dispute = "open"
	WonDispute  Dispute = "won" // by the operator, who keeps the money
)

// firstPaymentWithin is how long an incomplete subscription waits for its payment.
const firstPaymentWithin = 23 * time.Hour

// The kinds of announcements, named as Stripe names them.
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

// begin is a subscription whose first period was asked for and not yet charged.
func begin(customer, account string, usd int, now time.Time) Subscription {
	s := Subscription{
		// ids made later sort later, wherever the clock of a subscription is moved to
		ID:       "sub_sandbox_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", ""),
		Customer: customer, Account: account, Status: Incomplete, CreatedAt: now, PeriodEnd: monthAfter(now),
	}
	s.invoice(now, usd)
	return s
}

func (s *Subscription) invoice(from time.Time, usd int) {
	in := Invoice{ID: "in_sandbox_" + rand.Text(), USD: usd, From: from, Until: monthAfter(from)}
	s.Invoices = append([]Invoice{in}, s.Invoices...)
	s.PeriodEnd = in.Until
}

// charge tries to charge the newest invoice. What was not paid in its time is no longer asked for.
func (s *Subscription) charge(declines bool, now time.Time) (told []string) {
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
	if s.Status == Incomplete { // what is paid for begins with the payment
		newest.From, newest.Until = now, monthAfter(now)
		s.PeriodEnd = newest.Until
	}
	newest.Paid, s.Status = true, Active
	return []string{updated, invoicePaid}
}

// due does what the clock asks for: renewals of all periods that have ended, or the end.
func (s *Subscription) due(declines bool, now time.Time) (told []string) {
	if s.Status == Incomplete && !now.Before(s.CreatedAt.Add(firstPaymentWithin)) {
		s.Status = Canceled
		return []string{updated}
	}
	for (s.Status == Active || s.Status == PastDue) && !now.Before(s.PeriodEnd) {
		if s.CancelAtPeriodEnd || s.Status == PastDue {
			s.Status = Canceled
			return append(told, deleted)
		}
		s.invoice(s.PeriodEnd, s.Invoices[0].USD)
		told = append(told, s.charge(declines, now)...)
	}
	return told
}

// setCancel makes it end at the period's end, or takes that back.
func (s *Subscription) setCancel(cancel bool) (told []string, err error) {
	if s.Status != Active && s.Status != PastDue {
		return nil, problem.New(problem.InvalidParameter, "This subscription is over, or has not begun.")
	}
	if s.CancelAtPeriodEnd == cancel {
		return nil, nil
	}
	s.CancelAtPeriodEnd = cancel
	return []string{updated}, nil
}

// LatestPaid is the payment that can go back or be disputed; nil where there is none.
func (s Subscription) LatestPaid() *Invoice {
	for i := range s.Invoices {
		if s.Invoices[i].Paid {
			return &s.Invoices[i]
		}
	}
	return nil
}

func (s *Subscription) refund() (told []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Refunded || in.Dispute == OpenDispute {
		return nil, problem.New(problem.InvalidParameter, "There is no payment that can be refunded.")
	}
	in.Refunded = true
	return []string{refunded}, nil
}

func (s *Subscription) dispute() (told []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Refunded || in.Dispute != NoDispute {
		return nil, problem.New(problem.InvalidParameter, "There is no payment that can be disputed.")
	}
	in.Dispute = OpenDispute
	return []string{disputed}, nil
}

func (s *Subscription) winDispute() (told []string, err error) {
	in := s.LatestPaid()
	if in == nil || in.Dispute != OpenDispute {
		return nil, problem.New(problem.InvalidParameter, "No payment is disputed.")
	}
	in.Dispute = WonDispute
	return []string{disputeEnded}, nil
}

// givenUp reports whether it was never paid and never will be: nothing can be bought on its page any more.
func (s *Subscription) givenUp() bool { return s.Status == Canceled && s.LatestPaid() == nil }

// age moves the clock of the subscription on, which means that all of it happened that much earlier: everybody else goes by the real clock.
func (s *Subscription) age(by time.Duration) {
	s.CreatedAt, s.PeriodEnd = s.CreatedAt.Add(-by), s.PeriodEnd.Add(-by)
	for i := range s.Invoices {
		in := &s.Invoices[i]
		in.From, in.Until = in.From.Add(-by), in.Until.Add(-by)
	}
}

// state is what the service is told of it.
func (s *Subscription) state() subscription.State {
	state := subscription.State{
		ID: s.ID, Customer: s.Customer, Account: s.Account, Tier: api.Commercial,
		Ended: s.Status == Canceled, CancelAtPeriodEnd: s.CancelAtPeriodEnd,
	}
	in := s.LatestPaid()
	state.Failing = !s.Invoices[0].Paid && (in != nil || !state.Ended) // a first payment that was given up is asked for no more
	if in != nil {
		state.Paid = &subscription.Payment{Invoice: in.ID, Until: in.Until, Refunded: in.Refunded, Disputed: in.Dispute == OpenDispute}
	}
	return state
}

// monthAfter is the same day of the next month, or its last day where it has none such.
func monthAfter(t time.Time) time.Time {
	next := t.AddDate(0, 1, 0)
	if next.Day() != t.Day() {
		next = next.AddDate(0, 0, -next.Day())
	}
	return next
}
