package stripe_test

import (
	"bufio"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

// startMock builds stripe-mock at the version pinned in testdata/stripe-mock.mod and starts it.
// stripe-mock validates every request against Stripe's OpenAPI description and rejects unknown or
// malformed parameters.
func startMock(t *testing.T) *stripe.Stripe {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stripe-mock")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s", "-modfile=testdata/stripe-mock.mod", "-o",
		program, "github.com/stripe/stripe-mock")
	build.Env = append(build.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	// without both flags it listens on all addresses
	mock := exec.Command(program, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	pipe := storetest.Must(mock.StdoutPipe())(t)
	require.NoError(t, mock.Start())
	t.Cleanup(func() {
		_ = mock.Process.Kill()
		_ = mock.Wait()
	})
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if found := regexp.MustCompile(`HTTP at address: (127\.0\.0\.1:\d+)`).FindStringSubmatch(lines.Text()); found != nil {
			s := stripe.New(stripe.Config{APIKey: "sk_test_123", WebhookSecrets: []string{secret}, Price: "price_1",
				APIBase: "http://" + found[1]}, stripe.Options{Log: slog.New(slog.DiscardHandler)})
			t.Cleanup(s.Close)
			return s
		}
	}
	require.FailNow(t, "stripe-mock did not print its address")
	return nil
}

func TestRequestsMatchStripesAPI(t *testing.T) {
	s := startMock(t)
	customer := storetest.Must(s.Customer(t.Context(), "acc_1", "ada@example.com", "att_1"))(t)
	require.NotEmpty(t, customer)
	page := storetest.Must(s.Checkout(t.Context(), subscription.Order{Account: "acc_1", Customer: customer,
		ReturnURL: "https://api.example/account/plan", Attempt: "att_1", ExpiresAt: time.Now().Add(time.Hour)}))(t)
	require.Contains(t, page, "https://")
	portal := storetest.Must(s.Portal(t.Context(), customer, "https://api.example/account/plan"))(t)
	require.Contains(t, portal, "https://")
	ids := storetest.Must(s.Subscriptions(t.Context(), customer))(t)
	require.NotEmpty(t, ids)
	storetest.Must(s.Subscriptions(t.Context(), ""))(t)
	require.NoError(t, s.ExpireCheckouts(t.Context()))
	require.NoError(t, s.SetCancelAtPeriodEnd(t.Context(), ids[0], true))
	require.NoError(t, s.SetCancelAtPeriodEnd(t.Context(), ids[0], false))
	state := storetest.Must(s.Subscription(t.Context(), ids[0]))(t)
	require.Equal(t, ids[0], state.ID)
	require.NotEmpty(t, state.Customer)
	require.NoError(t, stripe.Charge(t.Context(), s, "in_1"))
	require.ErrorContains(t, s.CheckOffer(t.Context()), "does not match the Business plan",
		"stripe-mock has another price")

	for kind, about := range map[string]string{
		"charge.refunded":        `{"id":"ch_1","object":"charge","payment_intent":"pi_1"}`,
		"charge.dispute.created": `{"id":"dp_1","object":"dispute","charge":"ch_1"}`,
	} {
		subscriptionOf(t, s, event(kind, about))
	}
}
