// Package sandboxtest runs the sandbox as the Stripe of a test, which makes it fail and does what
// customers, banks and operators do at Stripe.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v86/webhook"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/sandbox"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
)

// PublicURL is the URL below which the sandbox serves its pages.
const PublicURL = servicetest.PublicURL

// Secret signs the webhook events of a test.
const Secret = "whsec_of_the_webhook_endpoint" //nolint:gosec // a key of tests

var schema = servicetest.NewSchema(store.Migrations)

// Stripe is a sandbox with a database of its own. Methods that change its state return the webhook
// events.
type Stripe struct {
	*sandbox.Sandbox

	t  testing.TB
	db *database.DB

	mu       sync.Mutex
	fail     func(r *http.Request) (status int)
	requests []string
	charges  map[string]*charge // that were refunded or disputed, by id
}

// New returns a sandbox with a clock.
func New(t testing.TB, now func() time.Time) *Stripe {
	t.Helper()
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	return &Stripe{Sandbox: sandbox.New(db, PublicURL, now), t: t, db: db, charges: map[string]*charge{}}
}

// Config returns the settings of a client.
func (s *Stripe) Config() stripe.Config {
	return stripe.Config{APIKey: sandbox.Key, WebhookSecrets: []string{Secret}, Price: sandbox.Price,
		APIBase: "http://stripe.sandbox"}
}

// Client returns a client in the same process.
func (s *Stripe) Client() *stripe.Stripe {
	return stripe.New(s.Config(), stripe.Options{Transport: sandbox.Transport{API: s}})
}

// Listen serves the API on a loopback port until the test ends and returns its URL.
func (s *Stripe) Listen() string {
	server := httptest.NewServer(s)
	s.t.Cleanup(server.Close)
	return server.URL
}

// Fail makes requests fail with the status that fail returns, unless it is 0. Status 400 says that
// the customer does not exist. fail may be nil.
func (s *Stripe) Fail(fail func(r *http.Request) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// SetUnavailable makes every request fail with status 500, or stops doing so.
func (s *Stripe) SetUnavailable(unavailable bool) {
	if !unavailable {
		s.Fail(nil)
		return
	}
	s.Fail(func(*http.Request) int { return http.StatusInternalServerError })
}

// ForbidWrites makes POST requests to paths with this prefix fail with status 403.
func (s *Stripe) ForbidWrites(prefix string) {
	s.Fail(func(r *http.Request) int {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, prefix) {
			return http.StatusForbidden
		}
		return 0
	})
}

// Requests returns the requests so far, as "METHOD path", that start with prefix.
func (s *Stripe) Requests(prefix string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			found = append(found, r)
		}
	}
	return found
}

func (s *Stripe) failure(r *http.Request) (status int) {
	s.mu.Lock()
	fail := s.fail
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if fail == nil {
		return 0
	}
	return fail(r)
}

// ServeHTTP serves a request unless it is made to fail.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := s.failure(r)
	if status == 0 {
		s.serve(w, r)
		return
	}
	w.Header().Set("Stripe-Should-Retry", "false")
	w.WriteHeader(status)
	if status == http.StatusBadRequest {
		_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","code":"resource_missing","param":"customer",` +
			`"message":"No such customer"}}`))
		return
	}
	_, _ = w.Write([]byte(`{"error":{"type":"api_error","message":"made to fail"}}`))
}

// charge has the refunds and the dispute of a payment, which the sandbox does not know.
type charge struct {
	refunded int    // cents
	dispute  string // Stripe's status; empty: none
}

// serve serves a request as the sandbox does, with refunds and disputes.
func (s *Stripe) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	id, isCharge := strings.CutPrefix(r.URL.Path, "/v1/charges/")
	switch {
	case r.URL.Path == "/v1/disputes":
		id := r.FormValue("charge")
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"dp","object":"dispute","charge":%q,"status":%q}]}`, id,
			s.charges[id].dispute) //nolint:gosec // to a client of Stripe
		return
	case s.charges[id] != nil:
		fmt.Fprintf(w, `{"id":%q,"object":"charge","payment_intent":%q}`, id,
			"pi"+strings.TrimPrefix(id, "ch")) //nolint:gosec // as above
		return
	case isCharge:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such ` +
			`charge"}}`))
		return
	}
	recorded := httptest.NewRecorder()
	s.Sandbox.ServeHTTP(recorded, r)
	body := recorded.Body.String()
	for id, c := range s.charges {
		object := fmt.Sprintf(`"id":%q,"object":"charge"`, id)
		body = strings.ReplaceAll(body, object, fmt.Sprintf(`%s,"amount_refunded":%d,"disputed":%t`, object, c.refunded,
			c.dispute != ""))
	}
	w.WriteHeader(recorded.Code)
	_, _ = w.Write([]byte(body))
}

// Event is the body of a webhook event.
type Event []byte

// Signature returns the Stripe-Signature header of the event, signed with secret at a time.
// Stripe's library makes it, not the sandbox.
func (e Event) Signature(secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e, Secret: secret, Timestamp: at}).Header
}

// UnrelatedEvent returns an event about something other than a subscription.
func UnrelatedEvent(eventType string) Event {
	return Event(fmt.Sprintf(`{"id":"evt_unrelated","object":"event","type":%q,"data":{"object":{"id":"prod_1",`+
		`"object":"product"}}}`, eventType))
}

// Events returns the pending webhook events, which are not delivered otherwise.
func (s *Stripe) Events() (events []Event) {
	s.t.Helper()
	require.NoError(s.t, s.Process(s.t.Context(), func(_ context.Context, body []byte, _ string) error {
		events = append(events, body)
		return nil
	}))
	return events
}

// call makes a request to the API that does not fail.
func (s *Stripe) call(method, path string, form url.Values) (out map[string]any) {
	s.t.Helper()
	target, body := "http://stripe.sandbox"+path, ""
	if method == http.MethodGet {
		target += "?" + form.Encode()
	} else {
		body = form.Encode()
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+sandbox.Key)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := sandbox.Transport{API: s.Sandbox}.RoundTrip(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "%v", out)
	return out
}

// Session returns the checkout session at a URL.
func (s *Stripe) Session(url string) map[string]any {
	s.t.Helper()
	for _, session := range s.call(http.MethodGet, "/v1/checkout/sessions",
		map[string][]string{"limit": {"100"}})["data"].([]any) {
		if session := session.(map[string]any); session["url"] == url {
			return session
		}
	}
	require.FailNow(s.t, "no session", url)
	return nil
}

// Pay completes the checkout session at a URL with a valid card.
func (s *Stripe) Pay(url string) (subscription string, events []Event) {
	s.t.Helper()
	id := s.Session(url)["id"].(string)
	require.NoError(s.t, s.Sandbox.Pay(s.t.Context(), id, false))
	return s.Session(url)["subscription"].(string), s.Events()
}

// Subscribe creates a paid subscription with metadata, or without if account is empty, as an
// operator can do at Stripe. An empty customer is a new one that names no account.
func (s *Stripe) Subscribe(customer, account string) (subscription string, events []Event) {
	s.t.Helper()
	if customer == "" {
		customer = s.call(http.MethodPost, "/v1/customers", nil)["id"].(string)
	}
	form := url.Values{
		"mode": {"subscription"}, "customer": {customer}, "line_items[0][price]": {sandbox.Price},
		"success_url": {PublicURL + "/x"}, "cancel_url": {PublicURL + "/x"},
	}
	if account != "" {
		form.Set("subscription_data[metadata][account]", account)
	}
	return s.Pay(s.call(http.MethodPost, "/v1/checkout/sessions", form)["url"].(string))
}

// Change changes a subscription and sends events of the returned types.
func (s *Stripe) Change(subscription string, change func(sub *sandbox.Subscription, now time.Time) []string) []Event {
	s.t.Helper()
	require.NoError(s.t, s.Update(s.t.Context(), subscription,
		func(sub *sandbox.Subscription, now time.Time) ([]string, error) {
			return change(sub, now), nil
		}))
	return s.Events()
}

// Invoice returns the newest invoice of a subscription.
func (s *Stripe) Invoice(subscription string) (in sandbox.Invoice) {
	s.t.Helper()
	s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string { in = sub.Invoices[0]; return nil })
	return in
}

// DraftRenewal ends a period: it creates a draft invoice for the next one, which Stripe would
// charge an hour later.
func (s *Stripe) DraftRenewal(subscription string) []Event {
	s.t.Helper()
	return s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string { return sub.Renew() })
}

// Renew invoices the next period; the charge succeeds or fails.
func (s *Stripe) Renew(subscription string, paid bool) []Event {
	s.t.Helper()
	return s.Change(subscription, func(sub *sandbox.Subscription, now time.Time) []string {
		return append(sub.Renew(), sub.Charge(!paid, now)...)
	})
}

// Decline makes the card of a customer be declined.
func (s *Stripe) Decline(customer string, declines bool) []Event {
	s.t.Helper()
	portal := s.call(http.MethodPost, "/v1/billing_portal/sessions",
		url.Values{"customer": {customer}, "return_url": {PublicURL + "/x"}})
	require.NoError(s.t, s.SetCard(s.t.Context(), portal["id"].(string), declines))
	return s.Events()
}

// Cancel sets or clears cancel_at_period_end, as older portals do.
func (s *Stripe) Cancel(subscription string, cancel bool) []Event {
	s.t.Helper()
	return s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string {
		events, err := sub.SetCancelAtPeriodEnd(cancel)
		require.NoError(s.t, err)
		return events
	})
}

// CancelAt cancels the subscription a number of months after the paid period by setting cancel_at,
// as the portal does since 2025.
func (s *Stripe) CancelAt(subscription string, months int) []Event {
	s.t.Helper()
	return s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string {
		sub.CancelAt = sub.PeriodEnd.AddDate(0, months, 0)
		return []string{"customer.subscription.updated"}
	})
}

// Delete ends a subscription immediately.
func (s *Stripe) Delete(subscription string) []Event {
	s.t.Helper()
	return s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string {
		if sub.Ended() {
			return nil
		}
		sub.Status = sandbox.Canceled
		return []string{"customer.subscription.deleted"}
	})
}

// Remove deletes a subscription, so that Stripe no longer finds it.
func (s *Stripe) Remove(subscription string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Exec("DELETE FROM sandbox_objects WHERE id = ?", subscription).Error)
}

// Refund refunds cents of the latest payment.
func (s *Stripe) Refund(subscription string, cents int) []Event {
	s.t.Helper()
	return s.change(subscription, "charge.refunded", `{"id":"ch%[1]s","object":"charge","payment_intent":"pi%[1]s"}`,
		func(c *charge) { c.refunded += cents })
}

// Dispute sets the dispute of the latest payment to a status of Stripe's. Its event has no payment
// intent, as on older Stripe accounts: it is found through the charge.
func (s *Stripe) Dispute(subscription, status string) []Event {
	s.t.Helper()
	eventType := "charge.dispute.created"
	if status == "won" || status == "lost" {
		eventType = "charge.dispute.closed"
	}
	return s.change(subscription, eventType, `{"id":"dp%[1]s","object":"dispute","charge":"ch%[1]s"}`,
		func(c *charge) { c.dispute = status })
}

// change changes the latest charge of a subscription.
func (s *Stripe) change(subscription, eventType, object string, change func(c *charge)) []Event {
	s.t.Helper()
	paid := ""
	pending := s.Change(subscription, func(sub *sandbox.Subscription, _ time.Time) []string {
		at := slices.IndexFunc(sub.Invoices, sandbox.Invoice.Paid)
		require.GreaterOrEqual(s.t, at, 0, "no payment")
		paid = strings.TrimPrefix(sub.Invoices[at].ID, "in")
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.charges["ch"+paid] == nil {
		s.charges["ch"+paid] = new(charge)
	}
	change(s.charges["ch"+paid])
	event := fmt.Sprintf(`{"id":"evt_%s","object":"event","type":%q,"data":{"object":%s}}`, rand.Text(), eventType,
		fmt.Sprintf(object, paid))
	return append(pending, Event(event))
}

// DeleteCustomer deletes a customer, which ends all its subscriptions.
func (s *Stripe) DeleteCustomer(id string) []Event {
	s.t.Helper()
	var subscriptions []string
	require.NoError(s.t, s.db.Raw("SELECT id FROM sandbox_objects WHERE kind = 'subscription' AND customer = ?", id).
		Scan(&subscriptions).Error)
	var events []Event
	for _, subscription := range subscriptions {
		events = append(events, s.Delete(subscription)...)
	}
	require.NoError(s.t, s.db.Exec("UPDATE sandbox_objects SET object = json_set(object, '$.Deleted', json('true')) "+
		"WHERE id = ?", id).Error)
	return events
}

// CloseDatabase causes an outage of the sandbox's database.
func (s *Stripe) CloseDatabase() { require.NoError(s.t, s.db.Close()) }
