package stripetest

import (
	"net/http"
	"strings"
)

// DeleteCustomer deletes a customer, which ends all its subscriptions. lists sets whether Stripe still lists them afterwards; its
// documentation does not say.
func (s *Server) DeleteCustomer(id string, lists bool) (events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.customers[id] = object{"id": id, "object": "customer", "deleted": true, "lists": lists}
	for _, sub := range s.subscriptions {
		if sub["customer"] == id && sub["status"] != "canceled" {
			sub["status"] = "canceled"
			events = append(events, s.event("customer.subscription.deleted", sub))
		}
	}
	return events
}

// reject returns an error for a request that changes an ended subscription or names a customer that is unknown or deleted.
func (s *Server) reject(r *http.Request) (status int, body object, rejected bool) {
	if sub := s.subscriptions[strings.TrimPrefix(r.URL.Path, "/v1/subscriptions/")]; sub != nil {
		if r.Method == http.MethodPost && sub["status"] == "canceled" {
			status, body = apiError(http.StatusBadRequest, "", "A canceled subscription can only update its cancellation_details and metadata.")
		}
		return status, body, body != nil
	}
	id := r.Form.Get("customer")
	c, known := s.customers[id]
	if id == "" || known && (c["deleted"] == nil || r.Method == http.MethodGet && c["lists"] == true) {
		return 0, nil, false
	}
	status, body = apiError(http.StatusBadRequest, "resource_missing", "No such customer: '"+id+"'")
	body["error"].(object)["param"] = "customer"
	return status, body, true
}
