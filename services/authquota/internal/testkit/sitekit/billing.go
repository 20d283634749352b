package sitekit

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/authquota"
)

// Billing is a fake billing service. Set changes its replies.
type Billing struct {
	Status       int    // of every response; 0 means 200
	Page         string // of the processor
	Subscription api.Subscription

	mu    sync.Mutex
	url   string
	calls []string // path and body of successful changes, in order
}

// NewBilling starts a fake billing service.
func NewBilling(t testing.TB) *Billing {
	b := &Billing{Page: "https://checkout.stripe.com/c/pay/cs_1"}
	service := servicetest.NewPeer(b)
	t.Cleanup(service.Close)
	b.url = service.URL
	return b
}

// Configure makes a service use this billing service.
func (b *Billing) Configure(cfg *authquota.Config) { cfg.BillingURL = b.url }

// Set changes the replies.
func (b *Billing) Set(change func(b *Billing)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// Calls returns the changes since the last time: path and body, in order.
func (b *Billing) Calls() (calls []string) {
	b.Set(func(b *Billing) { calls, b.calls = b.calls, nil })
	return calls
}

// ServeHTTP implements http.Handler.
func (b *Billing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+servicetest.Token(peer.Authquota) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if b.Status != 0 {
		w.WriteHeader(b.Status)
		return
	}
	if r.Method == http.MethodPost {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		b.calls = append(b.calls, r.URL.Path+" "+string(body))
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		b.Subscription.Renewing, b.Subscription.Cancelled = false, true
	case strings.HasSuffix(r.URL.Path, "/resume"):
		b.Subscription.Renewing, b.Subscription.Cancelled = true, false
	case !strings.HasPrefix(r.URL.Path, "/internal/v1/subscriptions/"):
		_ = json.NewEncoder(w).Encode(api.ProcessorPage{URL: b.Page})
		return
	}
	_ = json.NewEncoder(w).Encode(b.Subscription)
}
