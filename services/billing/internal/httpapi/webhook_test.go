package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/store"
)

// The handling of an event must end before the gateway gives up, so that its failure is counted and Stripe gets the service's response.
func TestWebhookDeadlineIsBeforeGatewayTimeout(t *testing.T) {
	var deadline time.Time
	log := slog.New(slog.DiscardHandler)
	start := time.Now()
	handler := httpapi.API{
		Errors: problem.Writer{BaseURL: "https://api.example", Log: log}, Ready: http.NotFoundHandler(),
		Sales: sales.Sales{}, Store: &store.Store{},
		Webhook: &httpapi.Webhook{Log: log, Count: func(string) {}, Parse: func(ctx context.Context, _ []byte, _ string) (processor.Event, error) {
			deadline, _ = ctx.Deadline()
			return processor.Event{}, processor.ErrMalformed
		}},
	}.Handler()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, httpapi.WebhookPath, strings.NewReader("{}"))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	require.Equal(t, http.StatusBadRequest, recorder.Code)
	require.False(t, deadline.IsZero(), "no deadline")
	require.True(t, deadline.Before(start.Add(api.GatewayTimeout)), "deadline %s after start, gateway timeout %s", deadline.Sub(start), api.GatewayTimeout)
}
