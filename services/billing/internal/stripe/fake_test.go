package stripe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/stripe"
)

type object = map[string]any

func listOf(elements ...object) object {
	return object{"object": "list", "has_more": false, "data": append([]object{}, elements...)}
}

// request is a request that the fake got.
type request struct {
	method, path string
	form         url.Values
	key          string // for idempotency
}

// fake is a Stripe with one customer, one subscription and its invoices, in Stripe's JSON, which
// tests change. Unlike Stripe it expands every object.
type fake struct {
	price, subscription object
	invoices            []object          // newest first
	charges             map[string]object // by invoice
	dispute             string            // status of the dispute of every charge
	declines            bool              // the card is declined
	noCustomer          bool              // the customer was deleted
	long                bool              // lists in an object have 119 other elements before

	fail     func(r *http.Request) (status int) // 0: not; nil: never
	requests []request
	log      bytes.Buffer
}

func newFake() *fake {
	f := &fake{charges: map[string]object{}}
	f.price = object{
		"id": "price_1", "object": "price", "active": true, "currency": "usd", "unit_amount": 2900,
		"recurring": object{"interval": "month", "interval_count": 1, "usage_type": "licensed"},
		"product":   object{"id": "prod_1", "object": "product", "name": "Business", "active": true},
	}
	f.subscription = object{
		"id": "sub_1", "object": "subscription", "status": "active", "cancel_at_period_end": false,
		"metadata": object{"account": "acc_1"}, "customer": object{"id": "cus_1", "metadata": object{"account": "acc_1"}},
	}
	f.renew("paid")
	return f
}

// renew adds the invoice of the next month, charged unless it is a draft, and returns its id.
func (f *fake) renew(status string) (id string) {
	n := len(f.invoices) + 1
	id, end := fmt.Sprintf("in_%d", n), now.AddDate(0, n, 0).Unix()
	f.invoices = slices.Insert(f.invoices, 0, object{
		"id": id, "object": "invoice", "status": status, "attempted": status != "draft", "auto_advance": status != "paid",
		"billing_reason": "subscription_cycle", "collection_method": "charge_automatically", "total": 2900,
		"parent": object{"subscription_details": object{"subscription": "sub_1"}},
		"lines": listOf(object{"id": "il_" + id, "object": "line_item", "period": object{"end": end},
			"parent": object{"type": "subscription_item_details"}}),
	})
	f.charges[id] = object{"id": "ch_" + id, "object": "charge", "amount": 2900, "payment_intent": "pi_" + id}
	f.subscription["items"] = listOf(object{"id": "si_1", "object": "subscription_item", "current_period_end": end,
		"price": object{"id": "price_1", "product": "prod_1"}})
	return id
}

func (f *fake) failAt(suffix string) {
	f.fail = func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, suffix) {
			return http.StatusInternalServerError
		}
		return 0
	}
}

func (f *fake) posted(suffix string) (found []request) {
	for _, r := range f.requests {
		if r.method == http.MethodPost && strings.HasSuffix(r.path, suffix) {
			found = append(found, r)
		}
	}
	return found
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.ParseForm()
	f.requests = append(f.requests, request{r.Method, r.URL.Path, r.Form, r.Header.Get("Idempotency-Key")})
	status, body := 0, object{"error": object{"type": "api_error", "message": "made to fail"}}
	if f.fail != nil {
		status = f.fail(r)
	}
	if status == 0 {
		status, body = f.serve(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Stripe-Should-Retry", "false")
	w.WriteHeader(status)
	err := json.NewEncoder(w).Encode(body)
	return w.Result(), err
}

func failure(status int, code string) (int, object) {
	return status, object{"error": object{"type": "invalid_request_error", "code": code, "message": code}}
}

func (f *fake) serve(r *http.Request) (status int, body object) {
	if f.noCustomer {
		return http.StatusBadRequest, object{"error": object{"type": "invalid_request_error", "code": "resource_missing",
			"param": "customer"}}
	}
	if r.Header.Get("Authorization") != "Bearer sk_test_1" {
		return failure(http.StatusUnauthorized, "")
	}
	switch path := r.URL.Path; r.Method + " " + path {
	case "GET /v1/prices/price_1":
		return http.StatusOK, f.price
	case "POST /v1/customers":
		return http.StatusOK, object{"id": "cus_1"}
	case "POST /v1/checkout/sessions", "POST /v1/billing_portal/sessions":
		return http.StatusOK, object{"id": "cs_1", "url": "https://checkout.stripe.example/cs_1"}
	case "GET /v1/subscriptions":
		return http.StatusOK, listOf(f.subscription)
	case "GET /v1/subscriptions/sub_1", "POST /v1/subscriptions/sub_1":
		if r.Form.Has("cancel_at_period_end") {
			f.subscription["cancel_at_period_end"] = r.Form.Get("cancel_at_period_end") == "true"
		}
		if r.Form.Has("cancel_at") {
			f.subscription["cancel_at"] = nil
		}
		f.subscription["latest_invoice"] = f.invoices[0]
		return http.StatusOK, f.shortened(f.subscription, "items")
	case "GET /v1/subscription_items":
		return http.StatusOK, f.page(r, f.subscription["items"])
	case "GET /v1/invoices":
		var found []object
		for _, in := range f.invoices {
			if in["status"] == r.Form.Get("status") {
				found = append(found, f.shortened(in, "lines"))
			}
		}
		return http.StatusOK, listOf(found...)
	case "GET /v1/invoice_payments":
		return http.StatusOK, f.payments(r.Form.Get("invoice"), r.Form.Get("payment[payment_intent]"))
	case "GET /v1/disputes":
		return http.StatusOK, listOf(object{"id": "dp_1", "object": "dispute", "status": f.dispute})
	default:
		for _, in := range f.invoices {
			switch id := in["id"].(string); path {
			case "/v1/charges/ch_" + id:
				return http.StatusOK, f.charges[id]
			case "/v1/invoices/" + id + "/lines":
				return http.StatusOK, f.page(r, in["lines"])
			case "/v1/invoices/" + id + "/finalize":
				return f.finalize(in)
			case "/v1/invoices/" + id + "/pay":
				return f.pay(in)
			}
		}
	}
	return failure(http.StatusNotFound, "resource_missing")
}

// shortened returns an object with the first ten elements of a list in it, as Stripe does.
func (f *fake) shortened(of object, list string) object {
	if !f.long {
		return of
	}
	short := maps.Clone(of)
	short[list] = object{"object": "list", "has_more": true, "data": others(0, 10)}
	return short
}

// page returns a page of a long list, whose last element is the one of list.
func (f *fake) page(r *http.Request, list any) object {
	if r.Form.Get("starting_after") == "id99" {
		return listOf(append(others(100, 119), list.(object)["data"].([]object)...)...)
	}
	return object{"object": "list", "has_more": true, "data": others(0, 100)}
}

// others returns elements that pay for nothing.
func others(from, to int) (all []object) {
	for i := from; i < to; i++ {
		all = append(all, object{"id": fmt.Sprintf("id%d", i), "parent": object{"type": "invoice_item_details"}})
	}
	return all
}

// payments returns the payment of a paid invoice, named by its id or by its payment intent.
func (f *fake) payments(invoice, intent string) object {
	for _, in := range f.invoices {
		id := in["id"].(string)
		if in["status"] == "paid" && (id == invoice || "pi_"+id == intent) {
			return listOf(object{"id": "inpay_1", "object": "invoice_payment", "invoice": in, "payment": object{
				"type": "payment_intent", "payment_intent": object{"id": "pi_" + id, "latest_charge": f.charges[id]}}})
		}
	}
	return listOf()
}

func (f *fake) finalize(in object) (int, object) {
	if in["status"] != "draft" {
		return failure(http.StatusBadRequest, "invoice_not_editable")
	}
	in["status"] = "open"
	return http.StatusOK, in
}

func (f *fake) pay(in object) (int, object) {
	if in["status"] != "open" {
		return failure(http.StatusBadRequest, "invoice_not_payable")
	}
	in["attempted"] = true
	if f.declines {
		return failure(http.StatusPaymentRequired, "card_declined")
	}
	in["status"] = "paid"
	return http.StatusOK, in
}

// client returns a client of Stripe whose requests go to transport.
func client(transport http.RoundTripper, log *bytes.Buffer) *stripe.Stripe {
	return stripe.New(stripe.Config{APIKey: "sk_test_1", WebhookSecrets: []string{secret, older}, Price: "price_1",
		APIBase: "http://stripe.example"}, stripe.Options{Transport: transport, Log: slog.New(slog.NewTextHandler(log, nil))})
}

func start() (*stripe.Stripe, *fake) {
	f := newFake()
	return client(f, &f.log), f
}

func event(eventType, object string) sandboxtest.Event {
	return sandboxtest.NewEvent("evt_1", eventType, object)
}

func subscriptionOf(t *testing.T, s *stripe.Stripe, e sandboxtest.Event) string {
	t.Helper()
	got, err := s.Event(t.Context(), e, e.Signature(secret, now), now)
	require.NoError(t, err, "%s", e)
	return got.Subscription
}
