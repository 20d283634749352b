package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/stripe"
)

// WebhookPath is the path to which Stripe sends its webhook events.
const WebhookPath = "/billing/stripe/webhook"

// webhookTimeout ends the handling of an event before the gateway gives up, so that its failure is
// reported and counted here.
const webhookTimeout = api.GatewayTimeout - time.Second

// Webhook handles webhook events of the processor. Stripe resends events that got a 5xx for days.
type Webhook struct {
	Stripe     *stripe.Stripe
	Reconciler reconcile.Reconciler
	Now        func() time.Time
	Log        *slog.Logger
	Count      func(outcome string)
}

// Outcomes of events that are not reconciled.
const (
	badSignature = "bad_signature"
	malformed    = "malformed"
	failed       = "failed"
)

// Outcomes lists all outcomes of a webhook event.
var Outcomes = []string{string(reconcile.Done), string(reconcile.Duplicate), string(reconcile.Irrelevant), badSignature,
	malformed, failed}

func (w *Webhook) serve(g *gin.Context) (web.Reply, error) {
	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, api.MaxWebhookEvent))
	if err != nil {
		w.Count(malformed)
		return web.Reply{}, problem.New(problem.InvalidParameter, "The body must be an event of at most %d bytes.",
			api.MaxWebhookEvent).Because(err)
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), webhookTimeout)
	defer cancel()
	outcome, err := w.Receive(ctx, body, g.GetHeader("Stripe-Signature"))
	return web.Reply{JSON: map[string]string{"outcome": outcome}}, err
}

// Receive handles an event with its signature and counts the outcome.
func (w *Webhook) Receive(ctx context.Context, body []byte, signature string) (outcome string, err error) {
	outcome, err = w.receive(ctx, body, signature)
	w.Count(outcome)
	return outcome, err
}

func (w *Webhook) receive(ctx context.Context, body []byte, signature string) (outcome string, err error) {
	event, err := w.Stripe.Event(ctx, body, signature, w.Now())
	switch {
	case errors.Is(err, stripe.ErrSignature):
		w.Log.WarnContext(ctx, "webhook event rejected", "error", err.Error())
		return badSignature, problem.New(problem.InvalidParameter, "The Stripe-Signature header is invalid or expired.")
	case errors.Is(err, stripe.ErrMalformed):
		w.Log.WarnContext(ctx, "webhook event rejected", "error", err.Error())
		return malformed, problem.New(problem.InvalidParameter, "The body must be a Stripe event.")
	case err != nil:
		return failed, err
	}
	done, err := w.Reconciler.HandleEvent(ctx, event)
	if err != nil {
		return failed, err
	}
	w.Log.InfoContext(ctx, "webhook event processed", "event_id", event.ID, "event_type", event.Type,
		"subscription_id", event.Subscription, "outcome", string(done))
	return string(done), nil
}
