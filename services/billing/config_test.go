package billing_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
)

func TestSettings(t *testing.T) {
	load := func(changes ...string) error {
		given := map[string]string{
			"OPPORTUNITY_DATABASE_URL":  "sqlite:///tmp/x.db",
			"OPPORTUNITY_PEER_TOKENS":   strings.Join(servicetest.Tokens(peer.Billing).Peers, ","),
			"OPPORTUNITY_CALLER_TOKENS": strings.Join(servicetest.Callers(peer.Billing).Tokens, ","),
			"OPPORTUNITY_PUBLIC_URL":    servicetest.PublicURL,
			"OPPORTUNITY_AUTHQUOTA_URL": "http://authquota:8080", "OPPORTUNITY_STRIPE_API_KEY": "sk_live_1",
			"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS": secret + ",whsec_of_the_previous_one", "OPPORTUNITY_STRIPE_PRICE": "price_1",
		}
		for i := 0; i < len(changes); i += 2 {
			given[changes[i]] = changes[i+1]
		}
		_, err := config.Load[billing.Config](func(name string) (string, bool) {
			v, ok := given[name]
			return v, ok && v != ""
		})
		return err
	}
	require.NoError(t, load())
	err := load("OPPORTUNITY_STRIPE_API_KEY", "", "OPPORTUNITY_STRIPE_WEBHOOK_SECRETS", "", "OPPORTUNITY_STRIPE_PRICE", "",
		"OPPORTUNITY_AUTHQUOTA_URL", "")
	for _, name := range []string{"OPPORTUNITY_STRIPE_API_KEY", "OPPORTUNITY_STRIPE_WEBHOOK_SECRETS",
		"OPPORTUNITY_STRIPE_PRICE", "AUTHQUOTA_URL"} {
		require.ErrorContains(t, err, name, "every invalid setting is named")
	}
	err = load("OPPORTUNITY_STRIPE_API_KEY", "pk_live_public", "OPPORTUNITY_STRIPE_WEBHOOK_SECRETS", "guess",
		"OPPORTUNITY_STRIPE_PRICE", "prod_1",
		"OPPORTUNITY_STRIPE_API_BASE", "localhost:12111")
	for _, name := range []string{"OPPORTUNITY_STRIPE_API_KEY", "OPPORTUNITY_STRIPE_WEBHOOK_SECRETS",
		"OPPORTUNITY_STRIPE_PRICE", "OPPORTUNITY_STRIPE_API_BASE"} {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "pk_live_public")
	require.NotContains(t, err.Error(), "guess")
	require.ErrorContains(t, load("OPPORTUNITY_BILLING_PROCESSOR", "paypal"), "use stripe or sandbox")
	require.ErrorContains(t, load("OPPORTUNITY_BILLING_PROCESSOR", "sandbox"), "OPPORTUNITY_STRIPE_* settings are set")
	require.NoError(t, load("OPPORTUNITY_BILLING_PROCESSOR", "sandbox", "OPPORTUNITY_STRIPE_API_KEY", "",
		"OPPORTUNITY_STRIPE_WEBHOOK_SECRETS", "",
		"OPPORTUNITY_STRIPE_PRICE", ""))
}

// priceOf is a Stripe whose price has this amount in cents; 0: it is unavailable.
func priceOf(t *testing.T, cents *atomic.Int64) (url string) {
	t.Helper()
	price := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if cents.Load() == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"id":"price_1","object":"price","active":true,"currency":"usd","unit_amount":%d,
			"recurring":{"interval":"month","interval_count":1,"usage_type":"licensed"},"product":{"id":"prod_1","name":"Business","active":true}}`,
			cents.Load())
	}))
	t.Cleanup(price.Close)
	return price.URL
}

func TestServiceDoesNotStartWithWrongPrice(t *testing.T) {
	cfg := settings(schema.SQLite(t), newAuthquota(t))
	var cents atomic.Int64
	cents.Store(1900)
	cfg.Stripe.APIBase = priceOf(t, &cents)
	cfg.Server.Listener, cfg.Server.OperationsListener = servicetest.Listen(t), servicetest.Listen(t)
	require.ErrorContains(t, billing.Run(t.Context(), cfg), "amount in cents is 1900, want 2900")
}

// An unavailable processor is not a configuration error: the service starts, and becomes ready when
// the processor is back.
func TestServiceWaitsForUnavailableProcessor(t *testing.T) {
	cfg := settings(schema.SQLite(t), newAuthquota(t))
	var cents atomic.Int64
	cfg.Stripe.APIBase = priceOf(t, &cents)
	s := run(t, cfg)
	storetest.Eventually(t, "not ready because of the processor only", func() bool {
		ready := s.Do(http.MethodGet, "/readyz", nil)
		return ready.Status == http.StatusServiceUnavailable &&
			ready.Body == `{"status":"not ready","missing":["processor"]}`+"\n"
	})
	storetest.Eventually(t, "counted",
		func() bool { return s.HasMetric(`billing_processor_seconds_count{operation="offer",outcome="away"} 1`) })
	cents.Store(2900)
	s.WaitReady()
	require.True(t, s.HasMetric(`billing_processor_seconds_count{operation="offer",outcome="ok"} 1`))
}
