package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/billing/internal/intake"
	"opportunity.internal/services/billing/internal/processor"
)

// WebhookPath is where Stripe announces what happened.
const WebhookPath = "/billing/stripe/webhook"

const (
	maxEvent  = 256 << 10
	eventTime = 15 * time.Second // for all that an announcement needs; Stripe waits for longer
)

// Webhook takes announcements of the processor in. What it refuses with 5xx, Stripe sends again for days.
type Webhook struct {
	// Event reads an announcement whose signature fits: processor.ErrSignature, processor.ErrMalformed, or problem.Unavailable.
	Event  func(ctx context.Context, body []byte, signature string) (processor.Event, error)
	Intake intake.Intake
	Log    *slog.Logger
	Count  func(outcome string)
}

// The outcomes of an announcement beside those of intake.
const (
	badSignature = "bad_signature"
	malformed    = "malformed"
	failed       = "failed"
)

// Outcomes are all that an announcement may come to.
var Outcomes = []string{string(intake.Done), string(intake.Repeated), string(intake.Irrelevant), badSignature, malformed, failed}

func (w *Webhook) answer(g *gin.Context) (web.Reply, error) {
	outcome, err := w.take(g)
	w.Count(outcome)
	return web.Reply{JSON: map[string]string{"outcome": outcome}}, err
}

func (w *Webhook) take(g *gin.Context) (outcome string, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, maxEvent))
	if err != nil {
		return malformed, problem.New(problem.InvalidParameter, "The body must be an event of at most %d bytes.", maxEvent).Because(err)
	}
	ctx, cancel := context.WithTimeout(g.Request.Context(), eventTime)
	defer cancel()
	event, err := w.Event(ctx, body, g.GetHeader("Stripe-Signature"))
	switch {
	case errors.Is(err, processor.ErrSignature):
		w.Log.WarnContext(ctx, "announcement refused", "reason", err.Error())
		return badSignature, problem.New(problem.InvalidParameter, "The signature does not fit, or is too old.")
	case errors.Is(err, processor.ErrMalformed):
		w.Log.WarnContext(ctx, "announcement refused", "reason", err.Error())
		return malformed, problem.New(problem.InvalidParameter, "The body must be an event.")
	case err != nil:
		return failed, err
	}
	done, err := w.Intake.Announced(ctx, event)
	if err != nil {
		return failed, err
	}
	w.Log.InfoContext(ctx, "announcement", "event", event.ID, "kind", event.Kind, "outcome", string(done))
	return string(done), nil
}
