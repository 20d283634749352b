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
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
)

// WebhookPath is the path to which Stripe sends its webhook events.
const WebhookPath = "/billing/stripe/webhook"

// webhookTimeout ends the handling of an event before the gateway gives up, so that its failure is reported and counted here.
const webhookTimeout = api.GatewayTimeout - time.Second

// Webhook handles webhook events of the processor. Stripe resends events that were answered with 5xx for days.
type Webhook struct {
	// Parse verifies the signature of an event and decodes it. It returns processor.ErrSignature, processor.ErrMalformed or
	// problem.Unavailable.
	Parse  func(ctx context.Context, body []byte, signature string) (processor.Event, error)
	Intake intake.Intake
	Log    *slog.Logger
	Count  func(outcome string)
}

// Outcomes of events that do not reach the intake.
const (
	badSignature = "bad_signature"
	malformed    = "malformed"
	failed       = "failed"
)

// Outcomes lists all outcomes of a webhook event.
var Outcomes = []string{string(intake.Done), string(intake.Duplicate), string(intake.Irrelevant), badSignature, malformed, failed}

func (w *Webhook) serve(g *gin.Context) (web.Reply, error) {
	outcome, err := w.handle(g)
	w.Count(outcome)
	return web.Reply{JSON: map[string]string{"outcome": outcome}}, err
}

func (w *Webhook) handle(g *gin.Context) (outcome string, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, api.MaxWebhookEvent))
	if err != nil {
		return malformed, problem.New(problem.InvalidParameter, "The body must be an event of at most %d bytes.", api.MaxWebhookEvent).Because(err)
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), webhookTimeout)
	defer cancel()
	event, err := w.Parse(ctx, body, g.GetHeader("Stripe-Signature"))
	switch {
	case errors.Is(err, processor.ErrSignature):
		w.Log.WarnContext(ctx, "webhook event rejected", "error", err.Error())
		return badSignature, problem.New(problem.InvalidParameter, "The Stripe-Signature header is invalid or expired.")
	case errors.Is(err, processor.ErrMalformed):
		w.Log.WarnContext(ctx, "webhook event rejected", "error", err.Error())
		return malformed, problem.New(problem.InvalidParameter, "The body must be a Stripe event.")
	case err != nil:
		return failed, err
	}
	done, err := w.Intake.HandleEvent(ctx, event)
	if err != nil {
		return failed, err
	}
	w.Log.InfoContext(ctx, "webhook event processed", "event_id", event.ID, "event_type", event.Type,
		"subscription_id", event.Subscription, "outcome", string(done))
	return string(done), nil
}
