package httpapi_test

import (
	"context"
	"errors"
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
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/subscription"
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

// events is an intake's Store and Source with one subscription.
type events struct {
	processed bool
	err       error
}

func (e events) Ticket(context.Context) (int64, error)                { return 1, e.err }
func (e events) EventProcessed(context.Context, string) (bool, error) { return e.processed, nil }
func (e events) Charge(context.Context, string) error                 { return nil }
func (e events) Apply(context.Context, intake.Fetched) (intake.Change, error) {
	return intake.Change{Account: "acc_1"}, nil
}
func (e events) Subscription(context.Context, string) (subscription.State, error) {
	return subscription.State{}, nil
}

func TestOutcomeOfWebhook(t *testing.T) {
	for name, c := range map[string]struct {
		body     string
		parseErr error
		events   events
		status   int
		outcome  string
		logged   string
	}{
		"done":            {status: http.StatusOK, outcome: "done", logged: "webhook event processed"},
		"repeated":        {events: events{processed: true}, status: http.StatusOK, outcome: "repeated", logged: "webhook event processed"},
		"bad signature":   {parseErr: processor.ErrSignature, status: http.StatusBadRequest, outcome: "bad_signature", logged: "webhook event rejected"},
		"malformed":       {parseErr: processor.ErrMalformed, status: http.StatusBadRequest, outcome: "malformed", logged: "webhook event rejected"},
		"processor fails": {parseErr: problem.Unavailable(errors.New("timeout")), status: http.StatusServiceUnavailable, outcome: "failed"},
		"database fails":  {events: events{err: problem.Unavailable(errors.New("closed"))}, status: http.StatusServiceUnavailable, outcome: "failed"},
		"largest body":    {body: strings.Repeat("x", 256<<10), status: http.StatusOK, outcome: "done"},
		"larger body":     {body: strings.Repeat("x", 256<<10+1), status: http.StatusBadRequest, outcome: "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			var counted []string
			logger := slog.New(slog.NewTextHandler(&log, nil))
			handler := httpapi.API{
				Errors: problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.DiscardHandler)}, Ready: http.NotFoundHandler(),
				Sales: sales.Sales{}, Store: &store.Store{},
				Webhook: &httpapi.Webhook{
					Log: logger, Count: func(outcome string) { counted = append(counted, outcome) },
					Intake: intake.Intake{Store: c.events, Source: c.events, Log: logger},
					Parse: func(_ context.Context, body []byte, signature string) (processor.Event, error) {
						require.Equal(t, c.body, string(body))
						require.Equal(t, "signed", signature)
						return processor.Event{ID: "evt_1", Subscription: "sub_1"}, c.parseErr
					},
				},
			}.Handler()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, httpapi.WebhookPath, strings.NewReader(c.body))
			request.Header.Set("Stripe-Signature", "signed")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			require.Equal(t, c.status, recorder.Code)
			require.Equal(t, []string{c.outcome}, counted)
			require.Contains(t, log.String(), c.logged)
			if c.status == http.StatusOK {
				require.JSONEq(t, `{"outcome":"`+c.outcome+`"}`, recorder.Body.String())
			}
		})
	}
}
