// Package sandboxtest runs the sandbox as the processor of a test, which makes it fail and does
// what customers, banks and operators do at Stripe.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v86/webhook"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
)

// PublicURL is the URL below which the sandbox serves its pages.
const PublicURL = servicetest.PublicURL

// Secret signs the webhook events of a test.
const Secret = "whsec_of_the_webhook_endpoint" //nolint:gosec // a key of tests

var schema = servicetest.NewSchema(store.Migrations)

// Processor is a sandbox with a database of its own. Methods that change a subscription return the
// webhook events.
type Processor struct {
	*sandbox.Sandbox

	t   testing.TB
	db  *database.DB
	now func() time.Time

	mu                 sync.Mutex
	fail               func(operation, about string) error
	refunded, disputed map[string]bool // invoices
	deleted            map[string]bool // customers
}

// New returns a processor with a clock.
func New(t testing.TB, now func() time.Time) *Processor {
	t.Helper()
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	return &Processor{Sandbox: sandbox.New(db, PublicURL, now), t: t, db: db, now: now, refunded: map[string]bool{},
		disputed: map[string]bool{}, deleted: map[string]bool{}}
}

// Fail makes calls fail with the error that fail returns. An operation has the name of its method,
// such as "Checkout", and is about a customer, a subscription or, for a new customer, an account.
// fail may be nil.
func (p *Processor) Fail(fail func(operation, about string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// Reject makes an operation fail as if the API key lacked the permission.
func (p *Processor) Reject(operation string) {
	p.Fail(func(called, _ string) error {
		if called == operation {
			return errors.New("lacks the permission")
		}
		return nil
	})
}

// SetUnavailable makes every call fail as in an outage, or stops doing so.
func (p *Processor) SetUnavailable(unavailable bool) {
	if !unavailable {
		p.Fail(nil)
		return
	}
	p.Fail(func(string, string) error { return problem.Unavailable(errors.New("made to fail")) })
}

func (p *Processor) called(operation, about string) error {
	p.mu.Lock()
	fail := p.fail
	p.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(operation, about)
}

// call calls do unless the operation is made to fail.
func call[T any](p *Processor, operation, about string, do func() (T, error)) (result T, err error) {
	if err := p.called(operation, about); err != nil {
		return result, err
	}
	return do()
}

// Customer creates a customer unless it is made to fail, like the other methods of a processor.
func (p *Processor) Customer(ctx context.Context, account, email, attempt string) (id string, err error) {
	return call(p, "Customer", account, func() (string, error) {
		return p.Sandbox.Customer(ctx, account, email, attempt)
	})
}

// Checkout opens a checkout session.
func (p *Processor) Checkout(ctx context.Context, o subscription.Order) (url string, err error) {
	return call(p, "Checkout", o.Customer, func() (string, error) { return p.Sandbox.Checkout(ctx, o) })
}

// ExpireCheckouts closes every checkout session.
func (p *Processor) ExpireCheckouts(ctx context.Context) error {
	return errors.Join(p.called("ExpireCheckouts", ""), p.Sandbox.ExpireCheckouts(ctx))
}

// Portal opens a portal session.
func (p *Processor) Portal(ctx context.Context, customer, returnURL string) (url string, err error) {
	return call(p, "Portal", customer, func() (string, error) { return p.Sandbox.Portal(ctx, customer, returnURL) })
}

// Subscription returns the state of a subscription, with its refund and dispute. As at Stripe, a
// deleted customer no longer names its account.
func (p *Processor) Subscription(ctx context.Context, id string) (subscription.State, error) {
	state, err := call(p, "Subscription", id,
		func() (subscription.State, error) { return p.Sandbox.Subscription(ctx, id) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if state.Paid != nil {
		state.Paid.Refunded, state.Paid.Disputed = p.refunded[state.Paid.Invoice], p.disputed[state.Paid.Invoice]
	}
	if p.deleted[state.Customer] {
		state.Account = ""
	}
	return state, err
}

// Subscriptions lists subscriptions, also those of a deleted customer.
func (p *Processor) Subscriptions(ctx context.Context, customer string) (ids []string, err error) {
	return call(p, "Subscriptions", customer, func() ([]string, error) { return p.Sandbox.Subscriptions(ctx, customer) })
}

// SetCancelAtPeriodEnd cancels or resumes a subscription.
func (p *Processor) SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) error {
	_, err := call(p, "SetCancelAtPeriodEnd", id, func() (any, error) {
		return nil, p.Sandbox.SetCancelAtPeriodEnd(ctx, id, cancel)
	})
	return err
}

// Event is the body of a webhook event of Stripe.
type Event []byte

// NewEvent returns an event of a type about an object in JSON.
func NewEvent(id, eventType, object string) Event {
	return Event(fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"data":{"object":%s}}`, id, eventType, object))
}

func changed(event, subscription string) Event {
	return NewEvent(event, "customer.subscription.updated", fmt.Sprintf(`{"id":%q}`, subscription))
}

// Signature returns the Stripe-Signature header of the event, signed with secret at a time.
func (e Event) Signature(secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e, Secret: secret, Timestamp: at}).Header
}

// Events returns the pending webhook events, which are not delivered otherwise.
func (p *Processor) Events() (events []Event) {
	p.t.Helper()
	require.NoError(p.t, p.Process(p.t.Context(), func(_ context.Context, e subscription.Event) error {
		events = append(events, changed(e.ID, e.Subscription))
		return nil
	}))
	return events
}

// Page returns the data of the page at a URL.
func (p *Processor) Page(url string) (sandbox.Session, error) {
	kind, id, _ := strings.Cut(strings.TrimPrefix(url, PublicURL+sandbox.Path), "/")
	return p.Session(p.t.Context(), sandbox.Kind(kind), id)
}

// Pay completes the checkout session at a URL with a valid card.
func (p *Processor) Pay(url string) (subscription string, events []Event) {
	p.t.Helper()
	require.NoError(p.t, p.Sandbox.Pay(p.t.Context(), path.Base(url), false))
	page := storetest.Must(p.Page(url))(p.t)
	return page.Bought, p.Events()
}

// Subscribe creates a paid subscription, as an operator can do at Stripe. An empty customer is a
// new one of the account, which may be empty too.
func (p *Processor) Subscribe(customer, account string) (subscription string, events []Event) {
	p.t.Helper()
	if customer == "" {
		customer = storetest.Must(p.Sandbox.Customer(p.t.Context(), account, "", rand.Text()))(p.t)
	}
	url := storetest.Must(p.Sandbox.Checkout(p.t.Context(), order(customer, p.now().Add(time.Hour))))(p.t)
	return p.Pay(url)
}

func order(customer string, expiresAt time.Time) subscription.Order {
	return subscription.Order{Customer: customer, ReturnURL: PublicURL + "/x", Attempt: rand.Text(), ExpiresAt: expiresAt}
}

func (p *Processor) change(id string, change func(sub *sandbox.Subscription)) []Event {
	p.t.Helper()
	require.NoError(p.t, p.Update(p.t.Context(), id, func(sub *sandbox.Subscription) error {
		change(sub)
		return nil
	}))
	return p.Events()
}

// Renew invoices the next period; the charge succeeds or fails.
func (p *Processor) Renew(id string, paid bool) []Event {
	p.t.Helper()
	return p.change(id, func(sub *sandbox.Subscription) { sub.Renew(!paid, p.now()) })
}

// Cancel schedules the end of a subscription, or removes that schedule.
func (p *Processor) Cancel(id string, cancel bool) []Event {
	p.t.Helper()
	return p.change(id, func(sub *sandbox.Subscription) { sub.CancelAtPeriodEnd = cancel })
}

// Delete ends a subscription immediately.
func (p *Processor) Delete(id string) []Event {
	p.t.Helper()
	return p.change(id, func(sub *sandbox.Subscription) { sub.Status = sandbox.Ended })
}

// Refund refunds the latest payment.
func (p *Processor) Refund(id string) []Event {
	p.t.Helper()
	return p.mark(id, p.refunded, true)
}

// Dispute opens a dispute of the latest payment, or ends it in favor of the seller.
func (p *Processor) Dispute(id string, open bool) []Event {
	p.t.Helper()
	return p.mark(id, p.disputed, open)
}

func (p *Processor) mark(id string, invoices map[string]bool, marked bool) []Event {
	p.t.Helper()
	state := storetest.Must(p.Sandbox.Subscription(p.t.Context(), id))(p.t)
	p.mu.Lock()
	invoices[state.Paid.Invoice] = marked
	p.mu.Unlock()
	return []Event{changed("evt_"+rand.Text(), id)}
}

// Remove deletes a subscription or a customer, so that the processor no longer finds it.
func (p *Processor) Remove(id string) {
	p.t.Helper()
	require.NoError(p.t, p.db.Exec("DELETE FROM sandbox_objects WHERE id = ?", id).Error)
}

// DeleteCustomer deletes a customer, which ends all its subscriptions.
func (p *Processor) DeleteCustomer(id string) (events []Event) {
	p.t.Helper()
	subscriptions := storetest.Must(p.Sandbox.Subscriptions(p.t.Context(), id))(p.t)
	for _, one := range subscriptions {
		events = append(events, p.Delete(one)...)
	}
	p.mu.Lock()
	p.deleted[id] = true
	p.mu.Unlock()
	p.Remove(id)
	return events
}

// CloseDatabase causes an outage of the sandbox's database.
func (p *Processor) CloseDatabase() { require.NoError(p.t, p.db.Close()) }
