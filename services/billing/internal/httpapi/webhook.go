package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/billing/internal/reconcile"
	"opportunity.internal/services/billing/internal/stripe"
	"opportunity.internal/services/billing/internal/subscription"
)

// WebhookPath is the path to which Stripe sends its webhook events.
const WebhookPath = "/billing/stripe/webhook"

// webhookTimeout ends the handling of an event before the gateway gives up, so that its failure is
// reported and counted here.
const webhookTimeout = api.GatewayTimeout - time.Second

// Webhook handles webhook events of the processor. Stripe resends events that got a 5xx for days.
type Webhook struct {
	reconcile.Reconciler

	Stripe *stripe.Stripe
	Count  func(outcome string)
}

// Outcomes of events that are not reconciled.
const (
	badSignature = "bad_signature"
	malformed    = "malformed"
	failed       = "failed"
)

// Outcomes lists all outcomes of a webhook event.
var Outcomes = []string{reconcile.Done, reconcile.Irrelevant, badSignature, malformed, failed}

func (w *Webhook) serve(g *gin.Context) (web.Reply, error) {
	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, api.MaxWebhookEvent))
	if err != nil {
		w.Count(malformed)
		return web.Reply{}, problem.New(problem.InvalidParameter, "The body must be an event of at most %d bytes.",
			api.MaxWebhookEvent).Because(err)
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), webhookTimeout)
	defer cancel()
	event, err := w.Stripe.Event(ctx, body, g.GetHeader("Stripe-Signature"), w.Now())
	if err != nil {
		return web.Reply{}, w.reject(ctx, err)
	}
	outcome, err := w.Receive(ctx, event)
	return web.Reply{JSON: map[string]string{"outcome": outcome}}, err
}

// reject counts an event that could not be read and returns the error of the response.
func (w *Webhook) reject(ctx context.Context, err error) error {
	outcome, refused := failed, err
	switch {
	case errors.Is(err, stripe.ErrSignature):
		outcome = badSignature
		refused = problem.New(problem.InvalidParameter, "The Stripe-Signature header is invalid or expired.")
	case errors.Is(err, stripe.ErrMalformed):
		outcome, refused = malformed, problem.New(problem.InvalidParameter, "The body must be a Stripe event.")
	}
	w.Count(outcome)
	if outcome != failed {
		w.Log.WarnContext(ctx, "webhook event rejected", "error", err.Error())
	}
	return refused
}

// Receive handles an event and counts the outcome.
func (w *Webhook) Receive(ctx context.Context, e subscription.Event) (outcome string, err error) {
	outcome, err = w.HandleEvent(ctx, e)
	if err != nil {
		w.Count(failed)
		return failed, err
	}
	w.Count(outcome)
	w.Log.InfoContext(ctx, "webhook event processed", "event_id", e.ID, "event_type", e.Type,
		"subscription_id", e.Subscription, "outcome", outcome)
	return outcome, nil
}
