package sandbox

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"opportunity.internal/pkg/problem"
)

// Status is the status of a subscription, with Stripe's names.
type Status string

const (
	Incomplete        Status = "incomplete"         // first payment not received
	IncompleteExpired Status = "incomplete_expired" // ended because the first payment was never received
	Active            Status = "active"
	PastDue           Status = "past_due" // renewal unpaid; ends with the unpaid period
	Canceled          Status = "canceled" // ended permanently
)

// Subscription is a subscription of the sandbox, paid or not.
type Subscription struct {
	ID                string
	Customer          string
	Metadata          map[string]string
	Status            Status
	CancelAtPeriodEnd bool
	CancelAt          time.Time // zero: none
	CreatedAt         time.Time
	PeriodEnd         time.Time // when it renews or ends
	Invoices          []Invoice // newest first; never empty
}

// Invoice is the invoice of one period.
type Invoice struct {
	ID        string
	USD       int
	From      time.Time
	Until     time.Time
	Renewal   bool // not the first of its subscription
	Status    InvoiceStatus
	Attempted bool // to charge it
	Advances  bool // it is charged without a request, an hour after its creation
}

// InvoiceStatus is the status of an invoice, with Stripe's names.
type InvoiceStatus string

const (
	Draft InvoiceStatus = "draft"
	Open  InvoiceStatus = "open" // final, not paid
	Paid  InvoiceStatus = "paid"
	Void  InvoiceStatus = "void"
)

// Paid reports whether the invoice was paid.
func (in Invoice) Paid() bool { return in.Status == Paid }

func (in Invoice) cents() int { return in.USD * 100 }

// part returns the id of the object of an invoice that begins with prefix: its charge (ch) or
// payment intent (pi).
func (in Invoice) part(prefix string) string { return prefix + strings.TrimPrefix(in.ID, "in") }

const (
	// firstPaymentTimeout limits how long an incomplete subscription waits for its first payment.
	firstPaymentTimeout = 23 * time.Hour
	// draftTime limits how long a renewal invoice stays a draft. Billing charges it earlier.
	draftTime = time.Hour
)

// Event types, with Stripe's names.
const (
	created        = "customer.subscription.created"
	updated        = "customer.subscription.updated"
	deleted        = "customer.subscription.deleted"
	invoiceCreated = "invoice.created"
	invoicePaid    = "invoice.paid"
	paymentFailed  = "invoice.payment_failed"
	completed      = "checkout.session.completed"
)

func newSubscription(customer string, metadata map[string]string, usd int, now time.Time) Subscription {
	s := Subscription{
		ID: "sub_sandbox_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-",
			""), Customer: customer, Metadata: metadata,
		Status: Incomplete, CreatedAt: now,
	}
	s.addInvoice(now, usd)
	return s
}

func (s *Subscription) addInvoice(from time.Time, usd int) {
	in := Invoice{
		ID: "in_sandbox_" + rand.Text(), USD: usd, From: from, Until: monthAfter(from), Renewal: len(s.Invoices) > 0,
		Status: Draft, Advances: true,
	}
	s.Invoices = slices.Insert(s.Invoices, 0, in)
	s.PeriodEnd = in.Until
}

func (s *Subscription) save(tx *gorm.DB, events []string) error {
	if err := put(tx, subscriptionKind, s.ID, s.Customer, s.due(), s); err != nil {
		return err
	}
	for _, eventType := range events {
		if err := storeEvent(tx, eventType, s.eventObject(eventType)); err != nil {
			return err
		}
	}
	return nil
}

// Ended reports whether the subscription never charges again.
func (s *Subscription) Ended() bool { return s.Status == Canceled || s.Status == IncompleteExpired }

// due returns the time of the next change that processDue makes, or the zero time.
func (s *Subscription) due() time.Time {
	newest := s.Invoices[0]
	switch {
	case s.Ended():
		return time.Time{}
	case s.Status == Incomplete:
		return s.CreatedAt.Add(firstPaymentTimeout)
	case newest.Status == Draft:
		return newest.From.Add(draftTime)
	}
	return s.PeriodEnd
}

// processDue makes the changes that are due and returns their events: it renews the subscription,
// charges renewal invoices, or ends it.
func (s *Subscription) processDue(declines bool, now time.Time) (events []string) {
	for !s.Ended() && !now.Before(s.due()) {
		switch {
		case s.Status == Incomplete:
			s.Status, s.Invoices[0].Status = IncompleteExpired, Void
			events = append(events, updated)
		case s.Invoices[0].Status == Draft:
			events = append(events, s.charge(&s.Invoices[0], declines, now)...)
		case s.CancelAtPeriodEnd || s.Status == PastDue || !s.CancelAt.IsZero() && !s.CancelAt.After(s.PeriodEnd):
			s.Status = Canceled
			events = append(events, deleted)
		default:
			events = append(events, s.Renew()...)
		}
	}
	return events
}

// Renew begins the next period with a draft invoice and returns the events.
func (s *Subscription) Renew() (events []string) {
	s.addInvoice(s.PeriodEnd, s.Invoices[0].USD)
	return []string{updated, invoiceCreated}
}

func (s *Subscription) charge(in *Invoice, declines bool, now time.Time) (events []string) {
	if in.Status != Draft && in.Status != Open || s.Ended() {
		return nil
	}
	in.Status, in.Attempted = Open, true
	switch {
	case declines && s.Status == Incomplete:
		return []string{paymentFailed}
	case declines:
		s.Status = PastDue
		return []string{paymentFailed, updated}
	}
	if s.Status == Incomplete { // the paid period starts with the payment
		in.From, in.Until = now, monthAfter(now)
		s.PeriodEnd = in.Until
	}
	in.Status, in.Advances, s.Status = Paid, false, Active
	return []string{updated, invoicePaid}
}

// Charge attempts to charge the newest invoice and returns the events.
func (s *Subscription) Charge(declines bool, now time.Time) (events []string) {
	return s.charge(&s.Invoices[0], declines, now)
}

// SetCancelAtPeriodEnd schedules the end of the subscription, or removes that schedule.
func (s *Subscription) SetCancelAtPeriodEnd(cancel bool) (events []string, err error) {
	if s.Ended() || s.Status == Incomplete {
		return nil, problem.New(problem.InvalidParameter, "This subscription has ended or has not started.")
	}
	if s.CancelAtPeriodEnd == cancel {
		return nil, nil
	}
	s.CancelAtPeriodEnd = cancel
	return []string{updated}, nil
}

// moveClock moves the clock of the subscription forward. The caller processes what falls due. To
// the rest of the service, which uses the real clock, every time of the subscription moves into the
// past.
func (s *Subscription) moveClock(by time.Duration) (events []string, err error) {
	switch {
	case s.Ended():
		return nil, problem.New(problem.InvalidParameter, "This subscription has ended.")
	case by <= 0:
		return nil, problem.New(problem.InvalidParameter, "The clock of this subscription is already past that time.")
	}
	s.CreatedAt, s.PeriodEnd = s.CreatedAt.Add(-by), s.PeriodEnd.Add(-by)
	if !s.CancelAt.IsZero() {
		s.CancelAt = s.CancelAt.Add(-by)
	}
	for i := range s.Invoices {
		in := &s.Invoices[i]
		in.From, in.Until = in.From.Add(-by), in.Until.Add(-by)
	}
	return []string{updated}, nil
}

func (s *Subscription) eventObject(eventType string) object {
	switch eventType {
	case invoiceCreated, invoicePaid, paymentFailed:
		return s.invoiceObject(s.Invoices[0])
	case created, updated, deleted:
		return s.object()
	}
	panic(fmt.Sprintf("event type %q", eventType))
}

// monthAfter returns the same day of the next month, or its last day if the month is too short.
func monthAfter(t time.Time) time.Time {
	next := t.AddDate(0, 1, 0)
	if next.Day() != t.Day() {
		next = next.AddDate(0, 0, -next.Day())
	}
	return next
}
