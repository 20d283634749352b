// Package stripe implements subscription.Processor with Stripe's Go library.
//
// Every request names the API version of the library, so responses have the expected shape whatever
// the Stripe account's default version is. From webhook events, which may use another version, only
// ids are read, in their older shapes too.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	api "github.com/stripe/stripe-go/v86"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/subscription"
)

// accountMetadata is the metadata key of the account id on customers, checkout sessions and
// subscriptions.
const accountMetadata = "account"

const (
	requestTimeout = 4 * time.Second // per attempt
	maxRetries     = 2               // by stripe-go, with backoff; a POST is retried under the same idempotency key
	// chargeTimeout is longer because a charge waits for the card's bank. It must stay below the
	// time allowed for a webhook event.
	chargeTimeout = 6 * time.Second
)

// Stripe is a client of the Stripe API.
type Stripe struct {
	client    *api.Client
	charges   *api.Client // with chargeTimeout and no retries
	price     string
	secrets   []string
	product   atomic.Pointer[string] // of price; nil until read
	log       *slog.Logger
	observe   func(operation string, duration time.Duration, err error)
	closeIdle func()
}

// Options are the parts of a client that are not settings.
type Options struct {
	Log       *slog.Logger
	Transport http.RoundTripper                                         // nil: the network
	Observe   func(operation string, duration time.Duration, err error) // called after each operation; nil: not observed
}

// New returns a client for valid settings. It makes no request.
func New(cfg Config, o Options) *Stripe {
	closeIdle := func() {}
	if o.Transport == nil {
		network := http.DefaultTransport.(*http.Transport).Clone()
		network.DialContext = (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		o.Transport, closeIdle = network, network.CloseIdleConnections
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, error) {}
	}
	client := func(timeout time.Duration, retries int64) *api.Client {
		backend := &api.BackendConfig{
			HTTPClient: &http.Client{Transport: o.Transport, Timeout: timeout},
			// errors carry the same details, without request parameters
			LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull},
			MaxNetworkRetries: api.Int64(retries),
			EnableTelemetry:   api.Bool(false),
		}
		if cfg.APIBase != "" {
			backend.URL = api.String(cfg.APIBase)
		}
		return api.NewClient(cfg.APIKey, api.WithBackends(api.NewBackendsWithConfig(backend)))
	}
	return &Stripe{
		client: client(requestTimeout, maxRetries), charges: client(chargeTimeout, 0),
		price: cfg.Price, secrets: cfg.WebhookSecrets, log: o.Log, observe: o.Observe, closeIdle: closeIdle,
	}
}

func (s *Stripe) observed(operation string, start time.Time, err *error) {
	s.observe(operation, time.Since(start), *err)
}

// Close closes idle connections.
func (s *Stripe) Close() { s.closeIdle() }

// apiError converts an error of stripe-go, which may quote request parameters, into one that is
// safe to log. It returns problem.Unavailable for outages, subscription.ErrNoCustomer or
// ErrNotFound for missing objects, and a plain error otherwise.
func apiError(operation string, err error) error {
	stripeErr := new(api.Error)
	if !errors.As(err, &stripeErr) {
		return problem.Unavailable(fmt.Errorf("stripe: %s: %w", operation, err))
	}
	described := fmt.Errorf("stripe: %s: status %d %s %s %s, request %s", operation, stripeErr.HTTPStatusCode,
		stripeErr.Type, stripeErr.Code, stripeErr.Param, stripeErr.RequestID)
	switch status := stripeErr.HTTPStatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: OPPORTUNITY_STRIPE_API_KEY is invalid or lacks the permission", described)
	// status 400 if the customer is a parameter
	case stripeErr.Code == api.ErrorCodeResourceMissing && stripeErr.Param == "customer":
		return fmt.Errorf("%w: %w", subscription.ErrNoCustomer, described)
	case status == http.StatusNotFound && stripeErr.Code == api.ErrorCodeResourceMissing:
		return fmt.Errorf("%w: %w", subscription.ErrNotFound, described)
	case status == http.StatusTooManyRequests || status == http.StatusConflict ||
		status >= http.StatusInternalServerError || status == 0:
		return problem.Unavailable(described)
	}
	return described
}

// Customer creates the account's customer. The idempotency key contains the attempt: repeating the
// attempt returns the same customer, while a new attempt after the customer was deleted creates
// another one. An unused customer may be left behind.
func (s *Stripe) Customer(ctx context.Context, account, email, attempt string) (id string, err error) {
	defer s.observed("customer", time.Now(), &err)
	p := &api.CustomerCreateParams{Email: api.String(email), Metadata: map[string]string{accountMetadata: account}}
	p.SetIdempotencyKey("customer-" + digest(account, email, attempt))
	c, err := s.client.V1Customers.Create(ctx, p)
	if err != nil {
		return "", apiError("creating customer", err)
	}
	return c.ID, nil
}

// Checkout opens a checkout session for a subscription at the configured price.
func (s *Stripe) Checkout(ctx context.Context, o subscription.Order) (url string, err error) {
	defer s.observed("checkout", time.Now(), &err)
	metadata := map[string]string{accountMetadata: o.Account}
	p := &api.CheckoutSessionCreateParams{
		Mode: api.String(api.CheckoutSessionModeSubscription), Customer: api.String(o.Customer),
		ClientReferenceID: api.String(o.Account),
		LineItems:         []*api.CheckoutSessionCreateLineItemParams{{Price: api.String(s.price), Quantity: api.Int64(1)}},
		Metadata:          metadata,
		ExpiresAt:         api.Int64(o.ExpiresAt.Unix()),
		SubscriptionData:  &api.CheckoutSessionCreateSubscriptionDataParams{Metadata: metadata},
		SuccessURL:        api.String(o.SuccessURL()), CancelURL: api.String(o.CancelURL()),
	}
	p.SetIdempotencyKey("checkout-" + digest(o.Attempt, o.Customer, o.ReturnURL, s.price))
	page, err := s.client.V1CheckoutSessions.Create(ctx, p)
	if err != nil {
		return "", apiError("creating checkout session", err)
	}
	return page.URL, nil
}

// Portal opens a session of the customer portal, which is configured at Stripe.
func (s *Stripe) Portal(ctx context.Context, customer, returnURL string) (url string, err error) {
	defer s.observed("portal", time.Now(), &err)
	page, err := s.client.V1BillingPortalSessions.Create(ctx, &api.BillingPortalSessionCreateParams{
		Customer: api.String(customer), ReturnURL: api.String(returnURL),
	})
	if err != nil {
		return "", apiError("creating portal session", err)
	}
	return page.URL, nil
}

// Subscriptions lists the ids of all subscriptions of a customer or, if customer is empty, of all
// that have an account in their metadata or in that of their customer.
func (s *Stripe) Subscriptions(ctx context.Context, customer string) (ids []string, err error) {
	defer s.observed("subscriptions", time.Now(), &err)
	p := &api.SubscriptionListParams{Status: api.String("all")}
	p.Limit = api.Int64(100)
	if customer == "" {
		p.AddExpand("data.customer")
	} else {
		p.Customer = api.String(customer)
	}
	for sub, err := range s.client.V1Subscriptions.List(ctx, p).All(ctx) {
		if err != nil {
			return nil, apiError("listing subscriptions", err)
		}
		if customer != "" || accountOf(sub) != "" {
			ids = append(ids, sub.ID)
		}
	}
	return ids, nil
}

// accountOf returns the account in the metadata of a subscription or of its expanded customer.
func accountOf(sub *api.Subscription) string {
	if account := sub.Metadata[accountMetadata]; account != "" || sub.Customer == nil {
		return account
	}
	return sub.Customer.Metadata[accountMetadata]
}

// ExpireCheckouts closes every open checkout session with an account in its metadata. It fails if
// one of them was paid meanwhile.
func (s *Stripe) ExpireCheckouts(ctx context.Context) (err error) {
	defer s.observed("expire_checkouts", time.Now(), &err)
	p := &api.CheckoutSessionListParams{Status: api.String(string(api.CheckoutSessionStatusOpen))}
	p.Limit = api.Int64(100)
	var open []string // expired after the listing, which they would change
	for session, err := range s.client.V1CheckoutSessions.List(ctx, p).All(ctx) {
		if err != nil {
			return apiError("listing checkout sessions", err)
		}
		if session.Metadata[accountMetadata] != "" {
			open = append(open, session.ID)
		}
	}
	for _, id := range open {
		if _, err := s.client.V1CheckoutSessions.Expire(ctx, id, nil); err != nil {
			return apiError("expiring a checkout session", err)
		}
	}
	return nil
}

// SetCancelAtPeriodEnd cancels or resumes a subscription. The portal cancels by setting a date,
// cancel_at, which resuming must clear separately.
func (s *Stripe) SetCancelAtPeriodEnd(ctx context.Context, id string, cancel bool) (err error) {
	defer s.observed("set_cancel", time.Now(), &err)
	sub, err := s.client.V1Subscriptions.Update(ctx, id,
		&api.SubscriptionUpdateParams{CancelAtPeriodEnd: api.Bool(cancel)})
	if err == nil && !cancel && sub.CancelAt > 0 {
		p := &api.SubscriptionUpdateParams{}
		p.AddUnsetField(api.SubscriptionUpdateParamsUnsetFieldCancelAt)
		_, err = s.client.V1Subscriptions.Update(ctx, id, p)
	}
	if err != nil {
		return apiError("changing cancel_at_period_end", err)
	}
	return nil
}
