package stripetest

import (
	"net/http"
	"strings"
)

// Draft is what happens when a period ends: the invoice of the next one is made, and waits for an hour.
func (s *Server) Draft(subscription string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscriptions[subscription]
	invoice := s.invoice(sub, "subscription_cycle")
	invoice["status"], invoice["attempted"] = "draft", false
	return []Event{s.event("customer.subscription.updated", sub), s.event("invoice.created", invoice)}
}

// Invoice is the latest invoice of a subscription, after a change of its fields.
func (s *Server) Invoice(subscription string, change map[string]any) (fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.invoices {
		if i["of"] == subscription {
			fields = i
		}
	}
	for name, value := range change {
		fields[name] = value
	}
	out := object{}
	for name, value := range fields {
		out[name] = value
	}
	return out
}

// Decline makes every card be declined, or none.
func (s *Server) Decline(declines bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declines = declines
}

// collect finalizes or pays an invoice, as POST /v1/invoices/{id}/finalize and /pay do.
func (s *Server) collect(r *http.Request, key string) (int, object) {
	parts := strings.Split(r.URL.Path, "/")
	if before, ok := s.refused[key]; ok && key != "" {
		return http.StatusPaymentRequired, before
	}
	for _, i := range s.invoices {
		if i["id"] != parts[3] {
			continue
		}
		switch {
		case parts[4] == "finalize" && i["status"] == "draft":
			i["status"], i["auto_advance"] = "open", r.PostForm.Get("auto_advance") == "true"
		case parts[4] == "pay" && i["status"] == "open" && s.declines:
			i["attempted"] = true
			s.subscriptions[i["of"].(string)]["status"] = "past_due"
			body := object{"error": object{"type": "card_error", "code": "card_declined", "message": "Your card was declined."}}
			s.refused[key] = body
			return http.StatusPaymentRequired, body
		case parts[4] == "pay" && i["status"] == "open":
			s.paid(i)
		default:
			return refuse(http.StatusBadRequest, "", "This invoice is "+i["status"].(string))
		}
		s.answered[key] = i
		return http.StatusOK, i
	}
	return refuse(http.StatusNotFound, "resource_missing", "No such invoice: "+parts[3])
}

// Forbid makes the key one that may change nothing whose path begins so.
func (s *Server) Forbid(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbids = prefix
}
