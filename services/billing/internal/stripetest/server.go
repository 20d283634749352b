// Package stripetest is a fake of Stripe's API for tests. Unlike stripe-mock it keeps state. It supports the requests that billing makes
// and rejects all others.
package stripetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The price and product that the fake sells, and the API key it accepts.
const (
	Price   = "price_business"
	Product = "prod_business"
	Key     = "sk_test_of_the_stand_in"
)

type object = map[string]any

// Server is a fake Stripe. Tests change its state with methods that return the webhook events Stripe would send.
type Server struct {
	*httptest.Server

	mu              sync.Mutex
	next            int
	unavailable     bool
	declines        bool
	forbiddenPrefix string
	gate            func(r *http.Request)
	requests        []string
	responses       map[string]object // of successful requests, by idempotency key
	declined        map[string]object // responses to declined cards, by idempotency key

	Offer         object // the price, with its product
	now           time.Time
	customers     map[string]object
	sessions      map[string]object
	subscriptions map[string]object
	invoices      []object // oldest first
	charges       map[string]object
	disputes      map[string]string // status by charge
}

// New starts a fake whose clock is fixed at now. It is closed when the test ends.
func New(t testing.TB, now time.Time) *Server {
	t.Helper()
	s := &Server{
		responses: map[string]object{}, declined: map[string]object{}, now: now, customers: map[string]object{}, sessions: map[string]object{},
		subscriptions: map[string]object{}, charges: map[string]object{}, disputes: map[string]string{},
		Offer: object{
			"id": Price, "object": "price", "active": true, "currency": "usd", "unit_amount": 2900, "type": "recurring",
			"recurring": object{"interval": "month", "interval_count": 1, "usage_type": "licensed"},
			"product":   object{"id": Product, "object": "product", "name": "Business", "active": true},
		},
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// SetUnavailable makes every request fail with status 500, or stops doing so.
func (s *Server) SetUnavailable(unavailable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable = unavailable
}

// Gate sets a function that is called with each request before it is handled. It may block.
func (s *Server) Gate(gate func(r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

// Requests returns the requests so far, as "METHOD path", that start with prefix.
func (s *Server) Requests(prefix string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			found = append(found, r)
		}
	}
	return found
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		gate(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	status, body := s.reply(r)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func apiError(status int, code, message string) (int, object) {
	return status, object{"error": object{"type": "invalid_request_error", "code": code, "message": message}}
}

func (s *Server) reply(r *http.Request) (int, object) {
	switch {
	case s.unavailable:
		return apiError(http.StatusInternalServerError, "api_error", "unavailable")
	case r.Header.Get("Authorization") != "Bearer "+Key:
		return apiError(http.StatusUnauthorized, "", "Invalid API Key provided")
	}
	if s.forbiddenPrefix != "" && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, s.forbiddenPrefix) {
		return apiError(http.StatusForbidden, "", "The provided key does not have the required permissions")
	}
	_ = r.ParseForm()
	key := r.Header.Get("Idempotency-Key")
	if r.Method == http.MethodPost && key != "" {
		if before, ok := s.responses[key]; ok {
			return http.StatusOK, before
		}
	}
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/invoices/") {
		return s.collect(r, key)
	}
	if status, body, rejected := s.reject(r); rejected {
		return status, body
	}
	found, ok := s.route(r)
	if !ok {
		return apiError(http.StatusNotFound, "resource_missing", "No such thing: "+r.URL.Path)
	}
	if r.Method == http.MethodPost && key != "" {
		s.responses[key] = found
	}
	return http.StatusOK, found
}

func (s *Server) route(r *http.Request) (found object, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[1:]
	id := parts[len(parts)-1]
	switch kind := r.Method + " " + parts[0]; {
	case kind == "GET prices" && id == Price:
		return s.Offer, true
	case kind == "POST customers":
		c := s.make("cus", "customer", object{"email": r.PostForm.Get("email"), "metadata": metadata(r, "metadata")})
		s.customers[c["id"].(string)] = c
		return c, true
	case kind == "GET checkout":
		return page(slices.DeleteFunc(values(s.sessions), func(c object) bool { return c["status"] != r.Form.Get("status") })), true
	case kind == "POST checkout" && id == "expire":
		if found, ok = s.sessions[parts[2]]; ok {
			found["status"] = "expired"
		}
		return found, ok
	case kind == "POST checkout":
		return s.session(r), true
	case kind == "GET subscriptions" && len(parts) == 1 && r.Form.Get("customer") == "":
		return s.allSubscriptions(), true
	case kind == "POST billing_portal":
		return s.make("bps", "billing_portal.session", object{"url": s.URL + "/portal/" + r.PostForm.Get("customer")}), true
	case kind == "GET subscriptions" && len(parts) == 1:
		return s.list(r.Form.Get("customer"), "customer", values(s.subscriptions)), true
	case kind == "GET subscriptions":
		found, ok = s.subscriptions[id]
		return s.expanded(found), ok
	case kind == "POST subscriptions":
		if found, ok = s.subscriptions[id]; ok {
			update(found, r.PostForm)
		}
		return found, ok
	case kind == "GET invoices":
		paid := slices.DeleteFunc(slices.Clone(s.invoices), func(i object) bool { return i["status"] != r.Form.Get("status") })
		slices.Reverse(paid)
		return s.list(r.Form.Get("subscription"), "of", paid), true
	case kind == "GET invoice_payments":
		return s.payments(r), true
	case kind == "GET charges":
		found, ok = s.charges[id]
		return found, ok
	case kind == "GET disputes":
		status := s.disputes[r.Form.Get("charge")]
		if status == "" {
			return page(nil), true
		}
		return page([]object{{"id": "dp_1", "object": "dispute", "status": status}}), true
	}
	return nil, false
}

func values(of map[string]object) (out []object) {
	for _, o := range of {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b object) int { return strings.Compare(b["id"].(string), a["id"].(string)) })
	return out
}

func page(data []object) object {
	if data == nil {
		data = []object{}
	}
	return object{"object": "list", "has_more": false, "data": data}
}

func (s *Server) list(want, field string, of []object) object {
	return page(slices.DeleteFunc(of, func(o object) bool { return o[field] != want }))
}

func (s *Server) make(prefix, kind string, fields object) object {
	s.next++
	fields["id"], fields["object"] = fmt.Sprintf("%s_%06d", prefix, s.next), kind
	return fields
}

// allSubscriptions returns all subscriptions with their customers expanded.
func (s *Server) allSubscriptions() object {
	all := values(s.subscriptions)
	for i, sub := range all {
		all[i] = s.expanded(sub)
	}
	return page(all)
}

func metadata(r *http.Request, name string) object {
	out := object{}
	for key, v := range r.PostForm {
		if field, ok := strings.CutPrefix(key, name+"["); ok {
			out[strings.TrimSuffix(field, "]")] = v[0]
		}
	}
	return out
}

func (s *Server) session(r *http.Request) object {
	c := s.make("cs", "checkout.session", object{
		"customer": r.PostForm.Get("customer"), "price": r.PostForm.Get("line_items[0][price]"), "mode": r.PostForm.Get("mode"), "status": "open",
		"metadata": metadata(r, "metadata"), "subscription_metadata": metadata(r, "subscription_data[metadata]"),
		"success_url": r.PostForm.Get("success_url"), "cancel_url": r.PostForm.Get("cancel_url"),
		"expires_at": json.Number(r.PostForm.Get("expires_at")),
	})
	c["url"] = s.URL + "/pay/" + c["id"].(string)
	s.sessions[c["id"].(string)] = c
	return c
}

// expanded returns a subscription with its customer and latest invoice expanded.
func (s *Server) expanded(sub object) object {
	if sub == nil {
		return nil
	}
	out := object{}
	for k, v := range sub {
		out[k] = v
	}
	out["customer"] = s.customers[sub["customer"].(string)]
	out["items"] = page([]object{{
		"id": "si_1", "object": "subscription_item", "current_period_end": unix(sub["until"].(time.Time)),
		"price": object{"id": Price, "object": "price", "product": Product},
	}})
	for _, i := range s.invoices {
		if i["of"] == sub["id"] {
			out["latest_invoice"] = i
		}
	}
	return out
}

func (s *Server) payments(r *http.Request) object {
	var out []object
	for _, i := range s.invoices {
		charge, _ := i["charge"].(string)
		if charge == "" {
			continue
		}
		intent := strings.Replace(charge, "ch_", "pi_", 1)
		if r.Form.Get("invoice") == i["id"] || r.Form.Get("payment[payment_intent]") == intent {
			out = append(out, object{
				"id": "inpay_" + intent, "object": "invoice_payment", "status": "paid", "invoice": i,
				"payment": object{"type": "payment_intent", "payment_intent": object{
					"id": intent, "object": "payment_intent", "latest_charge": s.charges[charge],
				}},
			})
		}
	}
	return page(out)
}

func unix(t time.Time) json.Number { return json.Number(strconv.FormatInt(t.Unix(), 10)) }
