package stripetest

import (
	"net/http"
	"strings"
)

// DeleteCustomer is what somebody does at Stripe: all that the customer has ends at once. lists says whether it is told afterwards what
// the customer had, which Stripe's documentation leaves open.
func (s *Server) DeleteCustomer(id string, lists bool) (told []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.customers[id] = object{"id": id, "object": "customer", "deleted": true, "lists": lists}
	for _, sub := range s.subscriptions {
		if sub["customer"] == id && sub["status"] != "canceled" {
			sub["status"] = "canceled"
			told = append(told, s.event("customer.subscription.deleted", sub))
		}
	}
	return told
}

// stops refuses what is asked of a customer that is not there, or no more, and to change a subscription that is over.
func (s *Server) stops(r *http.Request) (status int, body object, refused bool) {
	if sub := s.subscriptions[strings.TrimPrefix(r.URL.Path, "/v1/subscriptions/")]; sub != nil {
		if r.Method == http.MethodPost && sub["status"] == "canceled" {
			status, body = refuse(http.StatusBadRequest, "", "A canceled subscription can only update its cancellation_details and metadata.")
		}
		return status, body, body != nil
	}
	id := r.Form.Get("customer")
	c, known := s.customers[id]
	if id == "" || known && (c["deleted"] == nil || r.Method == http.MethodGet && c["lists"] == true) {
		return 0, nil, false
	}
	status, body = refuse(http.StatusBadRequest, "resource_missing", "No such customer: '"+id+"'")
	body["error"].(object)["param"] = "customer"
	return status, body, true
}
