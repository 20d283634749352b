// Package stripe is the payment processor Stripe, through its own library.
//
// The version of its API is the library's, sent with every request, so that answers have the shape that this code reads whatever the
// account's default is. Of announcements only ids are believed, and those are read in the older shapes too.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/stripe/stripe-go/v86"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/processor"
)

// accountKey is the name under which an account's id is kept at Stripe, with customers, checkout sessions and subscriptions.
const accountKey = "account"

const (
	callTime = 4 * time.Second // for one attempt
	retries  = 2               // stripe-go's own, with its pauses; it repeats a POST under the same idempotency key
	// chargeTime is for a charge, which waits for the bank of the card. The gateway gives an announcement up after ten seconds.
	chargeTime = 6 * time.Second
)

// Stripe is the processor.
type Stripe struct {
	client  *api.Client
	charges *api.Client // more patient, and without repeats
	price   string
	secrets []string
	product atomic.Pointer[string] // of the price, once known
	close   func()
}

var _ processor.Processor = (*Stripe)(nil)

// New makes the processor of valid settings. It does not ask Stripe anything yet.
func New(cfg Config) *Stripe {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	client := func(timeout time.Duration, retries int64) *api.Client {
		backend := &api.BackendConfig{
			HTTPClient:        &http.Client{Transport: transport, Timeout: timeout},
			LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull}, // what it would log is in the errors, and might say too much
			MaxNetworkRetries: api.Int64(retries),
			EnableTelemetry:   api.Bool(false),
		}
		if cfg.APIBase != "" {
			backend.URL = api.String(cfg.APIBase)
		}
		return api.NewClient(cfg.APIKey, api.WithBackends(api.NewBackendsWithConfig(backend)))
	}
	return &Stripe{
		client: client(callTime, retries), charges: client(chargeTime, 0),
		price: cfg.Price, secrets: cfg.WebhookSecrets, close: transport.CloseIdleConnections,
	}
}

// Close ends the connections that are kept open.
func (s *Stripe) Close() { s.close() }

// failure is an error of stripe-go without what should not be in a log: it quotes a request's parameters. An outage is
// problem.Unavailable.
func failure(doing string, err error) error {
	refused := new(api.Error)
	if !errors.As(err, &refused) {
		return problem.Unavailable(fmt.Errorf("stripe: %s: %w", doing, err))
	}
	said := fmt.Errorf("stripe: %s: status %d %s %s %s, request %s", doing, refused.HTTPStatusCode, refused.Type, refused.Code, refused.Param, refused.RequestID)
	switch status := refused.HTTPStatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: OPPORTUNITY_STRIPE_API_KEY is not accepted for this", said)
	case refused.Code == api.ErrorCodeResourceMissing && refused.Param == "customer": // with 400, where it is not what the path names
		return fmt.Errorf("%w: %w", processor.ErrNoCustomer, said)
	case status == http.StatusNotFound && refused.Code == api.ErrorCodeResourceMissing:
		return fmt.Errorf("%w: %w", processor.ErrUnknown, said)
	case status == http.StatusTooManyRequests || status == http.StatusConflict || status >= http.StatusInternalServerError || status == 0:
		return problem.Unavailable(said)
	}
	return said
}

// Customer is the customer of an account. A repeat in the same attempt, such as after a crash, is answered by Stripe with the same
// customer; one that comes later leaves a customer behind who never bought anything. Without the attempt it would be answered with the
// same customer also after that was deleted.
func (s *Stripe) Customer(ctx context.Context, account, email, attempt string) (string, error) {
	p := &api.CustomerCreateParams{Email: api.String(email), Metadata: map[string]string{accountKey: account}}
	p.SetIdempotencyKey("customer-" + digest(account, email, attempt))
	c, err := s.client.V1Customers.Create(ctx, p)
	if err != nil {
		return "", failure("customer", err)
	}
	return c.ID, nil
}

// Checkout is a page on which the plan is bought for the price of the settings, charged at once.
func (s *Stripe) Checkout(ctx context.Context, o processor.Order) (processor.Session, error) {
	about := map[string]string{accountKey: o.Account}
	p := &api.CheckoutSessionCreateParams{
		Mode: api.String(api.CheckoutSessionModeSubscription), Customer: api.String(o.Customer), ClientReferenceID: api.String(o.Account),
		LineItems:        []*api.CheckoutSessionCreateLineItemParams{{Price: api.String(s.price), Quantity: api.Int64(1)}},
		Metadata:         about,
		ExpiresAt:        api.Int64(o.Until.Unix()),
		SubscriptionData: &api.CheckoutSessionCreateSubscriptionDataParams{Metadata: about},
		SuccessURL:       api.String(o.ReturnURL + "?checkout=done"), CancelURL: api.String(o.ReturnURL + "?checkout=left"),
	}
	p.SetIdempotencyKey("checkout-" + digest(o.Attempt, o.Customer, o.ReturnURL, s.price))
	page, err := s.client.V1CheckoutSessions.Create(ctx, p)
	if err != nil {
		return processor.Session{}, failure("checkout session", err)
	}
	return processor.Session{ID: page.ID, URL: page.URL}, nil
}

// Portal is a page of the customer portal, as it is configured at Stripe.
func (s *Stripe) Portal(ctx context.Context, customer, returnURL string) (string, error) {
	page, err := s.client.V1BillingPortalSessions.Create(ctx, &api.BillingPortalSessionCreateParams{
		Customer: api.String(customer), ReturnURL: api.String(returnURL),
	})
	if err != nil {
		return "", failure("portal session", err)
	}
	return page.URL, nil
}

// Subscriptions are the ids of all subscriptions of a customer.
func (s *Stripe) Subscriptions(ctx context.Context, customer string) ([]string, error) {
	p := &api.SubscriptionListParams{Customer: api.String(customer), Status: api.String("all")}
	p.Limit = api.Int64(100)
	var ids []string
	for sub, err := range s.client.V1Subscriptions.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, failure("subscriptions", err)
		}
		ids = append(ids, sub.ID)
	}
	return ids, nil
}

// SetCancel makes a subscription end at the end of its period, or go on. The portal cancels in another way than the API does, by an
// instant, which is to be taken back by itself.
func (s *Stripe) SetCancel(ctx context.Context, id string, cancel bool) error {
	sub, err := s.client.V1Subscriptions.Update(ctx, id, &api.SubscriptionUpdateParams{CancelAtPeriodEnd: api.Bool(cancel)})
	if err == nil && !cancel && sub.CancelAt > 0 {
		p := &api.SubscriptionUpdateParams{}
		p.AddUnsetField(api.SubscriptionUpdateParamsUnsetFieldCancelAt)
		_, err = s.client.V1Subscriptions.Update(ctx, id, p)
	}
	if err != nil {
		return failure("cancel at period end", err)
	}
	return nil
}

// words joins what is not empty.
func words(parts []string) string { return strings.Join(parts, "; ") }
