package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/peer"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/service/servicetest"
	"opportunity.internal/services/billing/internal/httpapi"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/sales"
	"opportunity.internal/services/billing/internal/sandbox/sandboxtest"
	"opportunity.internal/services/billing/internal/store"
	"opportunity.internal/services/billing/internal/stripe"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var schema = servicetest.NewSchema(store.Migrations)

// webhookTest receives webhook events of a sandbox.
type webhookTest struct {
	t         *testing.T
	processor *sandboxtest.Processor
	close     func() // the database
	webhook   *httpapi.Webhook
	handler   http.Handler
	log       strings.Builder
	counted   []string
}

func newWebhookTest(t *testing.T) *webhookTest {
	t.Helper()
	clock := func() time.Time { return now }
	w := &webhookTest{t: t, processor: sandboxtest.New(t, clock)}
	db := servicetest.OpenDatabase(t, schema.SQLite(t))
	w.close = func() { require.NoError(t, db.Close()) }
	log, repo := slog.New(slog.NewTextHandler(&w.log, nil)), store.New(db, clock)
	reconciler := reconcile.Reconciler{Store: repo, Processor: w.processor, Now: clock, Log: log}
	w.webhook = &httpapi.Webhook{
		Reconciler: reconciler,
		Stripe:     stripe.New(stripe.Config{WebhookSecrets: []string{sandboxtest.Secret}}, stripe.Options{}),
		Count:      func(outcome string) { w.counted = append(w.counted, outcome) },
	}
	w.handler = httpapi.API{
		Errors: problem.Writer{BaseURL: "https://api.example", Log: slog.New(slog.DiscardHandler)},
		Ready:  http.NotFoundHandler(), Sales: sales.Sales{Reconciler: reconciler}, Webhook: w.webhook,
	}.Handler()
	return w
}

func (w *webhookTest) send(body sandboxtest.Event, signature string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, httpapi.WebhookPath,
		strings.NewReader(string(body)))
	r.Header.Set("Stripe-Signature", signature)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return recorder
}

func TestOutcomeOfWebhook(t *testing.T) {
	pad := func(e sandboxtest.Event, size int) sandboxtest.Event {
		return append(e, strings.Repeat(" ", size-len(e))...)
	}
	for name, c := range map[string]struct {
		prepare func(w *webhookTest, e *sandboxtest.Event)
		secret  string
		status  int
		outcome string
		logged  string
	}{
		"done": {status: http.StatusOK, outcome: "done", logged: "webhook event processed"},
		"irrelevant": {prepare: func(_ *webhookTest, e *sandboxtest.Event) {
			*e = sandboxtest.NewEvent("evt_1", "product.updated", `{"id":"prod_1"}`)
		}, status: http.StatusOK, outcome: "irrelevant"},
		"bad signature": {secret: "whsec_of_another_endpoint", status: http.StatusBadRequest, outcome: "bad_signature",
			logged: "webhook event rejected"},
		"malformed": {prepare: func(_ *webhookTest, e *sandboxtest.Event) {
			*e = sandboxtest.Event(`{"object":"event"}`)
		}, status: http.StatusBadRequest, outcome: "malformed", logged: "webhook event rejected"},
		"processor fails": {prepare: func(w *webhookTest, _ *sandboxtest.Event) { w.processor.SetUnavailable(true) },
			status: http.StatusServiceUnavailable, outcome: "failed"},
		"database fails": {prepare: func(w *webhookTest, _ *sandboxtest.Event) { w.close() },
			status: http.StatusServiceUnavailable, outcome: "failed"},
		"largest body": {prepare: func(_ *webhookTest, e *sandboxtest.Event) { *e = pad(*e, api.MaxWebhookEvent) },
			status: http.StatusOK, outcome: "done"},
		"larger body": {prepare: func(_ *webhookTest, e *sandboxtest.Event) { *e = pad(*e, api.MaxWebhookEvent+1) },
			status: http.StatusBadRequest, outcome: "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWebhookTest(t)
			_, events := w.processor.Subscribe("", "acc_1")
			e, secret := events[0], sandboxtest.Secret
			if c.prepare != nil {
				c.prepare(w, &e)
			}
			if c.secret != "" {
				secret = c.secret
			}
			w.counted = nil
			got := w.send(e, e.Signature(secret, now))
			require.Equal(t, c.status, got.Code, got.Body)
			require.Equal(t, []string{c.outcome}, w.counted)
			require.Contains(t, w.log.String(), c.logged)
			if c.status == http.StatusOK {
				require.JSONEq(t, `{"outcome":"`+c.outcome+`"}`, got.Body.String())
			}
		})
	}
}

func TestRoutesHaveRules(t *testing.T) {
	engine, ok := httpapi.API{
		Errors: problem.Writer{}, Ready: http.NotFoundHandler(),
		Sales:   sales.Sales{Reconciler: reconcile.Reconciler{Store: &store.Store{}}},
		Webhook: new(httpapi.Webhook), SandboxPages: http.NotFoundHandler(),
	}.Handler().(*gin.Engine)
	require.True(t, ok)
	servicetest.RequireRules(t, peer.Billing, engine.Routes(),
		func(r gin.RouteInfo) (string, string) { return r.Method, r.Path })
}
