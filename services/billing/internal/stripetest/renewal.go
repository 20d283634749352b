package stripetest

import (
	"net/http"
	"strings"
)

// DraftRenewal ends a period: it creates a draft invoice for the next one, which Stripe would charge an hour later.
func (s *Server) DraftRenewal(subscription string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscriptions[subscription]
	invoice := s.invoice(sub, "subscription_cycle")
	invoice["status"], invoice["attempted"] = "draft", false
	return []Event{s.event("customer.subscription.updated", sub), s.event("invoice.created", invoice)}
}

// UpdateInvoice changes fields of a subscription's latest invoice and returns the invoice.
func (s *Server) UpdateInvoice(subscription string, change map[string]any) (fields map[string]any) {
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

// Decline makes every card be declined, or stops doing so.
func (s *Server) Decline(declines bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declines = declines
}

// collect handles POST /v1/invoices/{id}/finalize and /pay.
func (s *Server) collect(r *http.Request, key string) (int, object) {
	parts := strings.Split(r.URL.Path, "/")
	if before, ok := s.declined[key]; ok && key != "" {
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
			s.declined[key] = body
			return http.StatusPaymentRequired, body
		case parts[4] == "pay" && i["status"] == "open":
			s.paid(i)
		default:
			return apiError(http.StatusBadRequest, "", "This invoice is "+i["status"].(string))
		}
		s.responses[key] = i
		return http.StatusOK, i
	}
	return apiError(http.StatusNotFound, "resource_missing", "No such invoice: "+parts[3])
}

// ForbidWrites makes POST requests to paths with this prefix fail with status 403.
func (s *Server) ForbidWrites(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbiddenPrefix = prefix
}
