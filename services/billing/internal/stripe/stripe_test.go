package stripe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = sandboxtest.Secret
	older  = "whsec_of_the_endpoint_before"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const returnURL = sandboxtest.PublicURL + "/account/plan"

func start(t *testing.T) (*stripe.Stripe, *sandboxtest.Stripe) {
	t.Helper()
	fake := sandboxtest.New(t, func() time.Time { return now })
	cfg := fake.Config()
	cfg.WebhookSecrets = append(cfg.WebhookSecrets, older)
	return stripe.New(cfg, stripe.Options{Transport: sandbox.Transport{API: fake}}), fake
}

func buy(t *testing.T, s *stripe.Stripe, fake *sandboxtest.Stripe) (id string, events []sandboxtest.Event) {
	t.Helper()
	customer, err := s.Customer(t.Context(), "acc_1", "ada@example.com", "att_1")
	require.NoError(t, err)
	page, err := s.Checkout(t.Context(), stripe.Order{Account: "acc_1", Customer: customer, ReturnURL: returnURL,
		Attempt: "att_1", ExpiresAt: now.Add(time.Hour)})
	require.NoError(t, err)
	return fake.Pay(page)
}

func TestSubscriptionState(t *testing.T) {
	end := now.AddDate(0, 1, 0)
	for _, c := range []struct {
		name   string
		change func(fake *sandboxtest.Stripe, id string)
		want   func(s *subscription.State)
	}{
		{"paid", func(*sandboxtest.Stripe, string) {}, func(*subscription.State) {}},
		{"renewed", func(f *sandboxtest.Stripe, id string) { f.Renew(id, true) }, func(s *subscription.State) {
			s.Paid.Until = end.AddDate(0, 1, 0)
		}},
		{"renewal fails: the paid period continues", func(f *sandboxtest.Stripe, id string) { f.Renew(id, false) },
			func(s *subscription.State) {
				s.Failing = true
			}},
		{"renewal after a failed one is paid", func(f *sandboxtest.Stripe, id string) {
			f.Renew(id, false)
			f.Renew(id,
				true)
		}, func(s *subscription.State) {
			s.Paid.Until = end.AddDate(0, 2, 0)
		}},
		{"renewal is a draft", func(f *sandboxtest.Stripe, id string) { f.DraftRenewal(id) },
			func(s *subscription.State) { s.PendingInvoice = "its" }},
		{"cancelled", func(f *sandboxtest.Stripe, id string) { f.Cancel(id, true) },
			func(s *subscription.State) { s.CancelAtPeriodEnd = true }},
		{"resumed", func(f *sandboxtest.Stripe, id string) { f.Cancel(id, true); f.Cancel(id, false) },
			func(*subscription.State) {}},
		{"ended", func(f *sandboxtest.Stripe, id string) { f.Delete(id) }, func(s *subscription.State) { s.Ended = true }},
		{"partly refunded", func(f *sandboxtest.Stripe, id string) { f.Refund(id, 2899) }, func(*subscription.State) {}},
		{"refunded", func(f *sandboxtest.Stripe, id string) { f.Refund(id, 2899); f.Refund(id, 1) },
			func(s *subscription.State) { s.Paid.Refunded = true }},
		{"older payment refunded", func(f *sandboxtest.Stripe, id string) { f.Refund(id, 2900); f.Renew(id, true) },
			func(s *subscription.State) {
				s.Paid.Until = end.AddDate(0, 1, 0)
			}},
		{"disputed", func(f *sandboxtest.Stripe, id string) { f.Dispute(id, "needs_response") },
			func(s *subscription.State) { s.Paid.Disputed = true }},
		{"dispute lost", func(f *sandboxtest.Stripe, id string) { f.Dispute(id, "lost") },
			func(s *subscription.State) { s.Paid.Disputed = true }},
		{"dispute won", func(f *sandboxtest.Stripe, id string) { f.Dispute(id, "won") }, func(*subscription.State) {}},
		{"inquiry of the bank", func(f *sandboxtest.Stripe, id string) { f.Dispute(id, "warning_under_review") },
			func(*subscription.State) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, fake := start(t)
			id, _ := buy(t, s, fake)
			c.change(fake, id)
			got, err := s.Subscription(t.Context(), id)
			require.NoError(t, err)
			require.NotEmpty(t, got.Customer)
			require.NotEmpty(t, got.Paid.Invoice)
			want := subscription.State{
				ID: id, Customer: got.Customer, Account: "acc_1", Tier: api.Commercial,
				Paid: &subscription.Payment{Invoice: got.Paid.Invoice, Until: end},
			}
			c.want(&want)
			if want.PendingInvoice != "" {
				want.PendingInvoice = fake.Invoice(id).ID
			}
			require.Equal(t, want, got)
		})
	}
}

// A subscription without metadata, as an operator may create it at Stripe, belongs to the account
// of its customer.
func TestSubscriptionCreatedAtStripe(t *testing.T) {
	s, fake := start(t)
	customer, err := s.Customer(t.Context(), "acc_2", "ben@example.com", "att_1")
	require.NoError(t, err)
	id, _ := fake.Subscribe(customer, "")
	got, err := s.Subscription(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "acc_2", got.Account)
	require.Equal(t, api.Commercial, got.Tier)

	ids, err := s.Subscriptions(t.Context(), customer)
	require.NoError(t, err)
	require.Equal(t, []string{id}, ids)
}

func TestCancelAndResumeReachStripe(t *testing.T) {
	s, fake := start(t)
	id, _ := buy(t, s, fake)
	for _, cancel := range []bool{true, false} {
		require.NoError(t, s.SetCancelAtPeriodEnd(t.Context(), id, cancel))
		got, err := s.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, cancel, got.CancelAtPeriodEnd)
	}
}

// A repeated request, as after a crash, returns the same customer and the same checkout session.
func TestRequestsAreIdempotent(t *testing.T) {
	s, fake := start(t)
	one, err := s.Customer(t.Context(), "acc_1", "ada@example.com", "att_1")
	require.NoError(t, err)
	two, err := s.Customer(t.Context(), "acc_1", "ada@example.com", "att_1")
	require.NoError(t, err)
	require.Equal(t, one, two)
	order := stripe.Order{Account: "acc_1", Customer: one, ReturnURL: returnURL, Attempt: "att_1",
		ExpiresAt: now.Add(12 * time.Hour)}
	first, err := s.Checkout(t.Context(), order)
	require.NoError(t, err)
	again, err := s.Checkout(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, first, again)
	order.Attempt = "att_2"
	other, err := s.Checkout(t.Context(), order)
	require.NoError(t, err)
	require.NotEqual(t, first, other)

	session := fake.Session(first)
	require.Equal(t, map[string]any{"account": "acc_1"}, session["metadata"])
	require.Equal(t, returnURL+"?checkout=done", session["success_url"])
	require.Equal(t, returnURL+"?checkout=left", session["cancel_url"])
	require.InDelta(t, now.Add(12*time.Hour).Unix(), session["expires_at"], 0)
}

// reply is a processor with one response.
type reply []byte

func replyWith(t *testing.T, body any) reply {
	t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	return encoded
}

func (r reply) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(r)),
		Request: request}, nil
}

func TestOfferMustMatchPlanTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(price, product map[string]any)
		want   string // in the error; empty for none
	}{
		{"matching", func(_, _ map[string]any) {}, ""},
		{"other amount", func(p, _ map[string]any) { p["unit_amount"] = 3900 }, "amount in cents is 3900, want 2900"},
		{"other currency", func(p, _ map[string]any) { p["currency"] = "cad" }, "currency is cad, want usd"},
		{"yearly", func(p, _ map[string]any) {
			p["recurring"] = map[string]any{"interval": "year", "interval_count": 1, "usage_type": "licensed"}
		}, "interval is 1 year, want 1 month"},
		{"once", func(p, _ map[string]any) { p["recurring"] = nil }, "it is charged once"},
		{"archived price", func(p, _ map[string]any) { p["active"] = false }, "active is false, want true"},
		{"another product", func(_, p map[string]any) { p["name"] = "T-shirt" }, "product name is T-shirt, want Business"},
		{"archived product", func(_, p map[string]any) { p["active"] = false }, "product active is false, want true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			product := map[string]any{"id": "prod_1", "object": "product", "name": "Business", "active": true}
			price := map[string]any{
				"id": "price_1", "object": "price", "active": true, "currency": "usd", "unit_amount": 2900, "product": product,
				"recurring": map[string]any{"interval": "month", "interval_count": 1, "usage_type": "licensed"},
			}
			c.change(price, product)
			s := stripe.New(stripe.Config{APIKey: "sk_test_1", Price: "price_1", APIBase: "http://stripe.sandbox"},
				stripe.Options{Transport: replyWith(t, price)})
			err := s.CheckOffer(t.Context())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "OPPORTUNITY_STRIPE_PRICE")
			require.NotErrorAs(t, err, new(*problem.Error), "a mismatch is not an outage")
		})
	}
}

func TestStripeErrors(t *testing.T) {
	s, fake := start(t)
	_, err := s.Subscription(t.Context(), "sub_nowhere")
	require.ErrorIs(t, err, stripe.ErrNotFound)

	wrong := fake.Config()
	wrong.APIKey = "sk_test_wrong_and_secret"
	err = stripe.New(wrong, stripe.Options{Transport: sandbox.Transport{API: fake}}).CheckOffer(t.Context())
	require.ErrorContains(t, err, "OPPORTUNITY_STRIPE_API_KEY")
	require.NotContains(t, err.Error(), "wrong_and_secret")
	require.NotErrorAs(t, err, new(*problem.Error))

	fake.SetUnavailable(true)
	unavailable := new(problem.Error)
	require.ErrorAs(t, s.CheckOffer(t.Context()), &unavailable)
	require.Equal(t, problem.ServiceUnavailable, unavailable.Code)

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	cfg := fake.Config()
	cfg.APIBase = closed.URL
	network := stripe.New(cfg, stripe.Options{})
	t.Cleanup(network.Close)
	require.ErrorAs(t, network.CheckOffer(t.Context()), &unavailable)
}

func TestOperationsAreObserved(t *testing.T) {
	_, fake := start(t)
	var observed []string
	s := stripe.New(fake.Config(), stripe.Options{Transport: sandbox.Transport{API: fake},
		Observe: func(operation string, duration time.Duration, err error) {
			require.GreaterOrEqual(t, duration, time.Duration(0))
			observed = append(observed, fmt.Sprint(operation, " ", err == nil))
		}})
	require.NoError(t, s.CheckOffer(t.Context()))
	_, err := s.Subscription(t.Context(), "sub_nowhere")
	require.Error(t, err)
	require.Equal(t, []string{"offer true", "subscription false"}, observed)
}
