package billing_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/config"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
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

func TestServiceDoesNotStartWithWrongPrice(t *testing.T) {
	cfg := settings(schema.SQLite(t), sandboxtest.New(t, func() time.Time { return now }), newAuthquota(t))
	price := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"price_1","object":"price","active":true,"currency":"usd","unit_amount":1900,
			"recurring":{"interval":"month","interval_count":1,"usage_type":"licensed"},"product":{"id":"prod_1","name":"Business","active":true}}`)
	}))
	t.Cleanup(price.Close)
	cfg.Stripe.APIBase = price.URL
	cfg.Server.Listener, cfg.Server.OperationsListener = servicetest.Listen(t), servicetest.Listen(t)
	require.ErrorContains(t, billing.Run(t.Context(), cfg), "amount in cents is 1900, want 2900")
}

// An unavailable processor is not a configuration error: the service starts, and becomes ready when
// the processor is back.
func TestServiceWaitsForUnavailableProcessor(t *testing.T) {
	fake := sandboxtest.New(t, func() time.Time { return now })
	fake.SetUnavailable(true)
	cfg := settings(schema.SQLite(t), fake, newAuthquota(t))
	s := run(t, cfg)
	storetest.Eventually(t, "not ready because of the processor only", func() bool {
		ready := s.Do(http.MethodGet, "/readyz", nil)
		return ready.Status == http.StatusServiceUnavailable &&
			ready.Body == `{"status":"not ready","missing":["processor"]}`+"\n"
	})
	fake.SetUnavailable(false)
	s.WaitReady()
}
