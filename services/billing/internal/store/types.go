package store

import (
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/billing/internal/subscription"
)

// Attempt is a purchase attempt. It has at most one checkout session.
type Attempt struct {
	ID        string
	URL       string    // of the checkout session; empty if none has been opened
	ExpiresAt time.Time // when the session closes; later checkouts start a new attempt
}

// Cause records the reason for reading a state, for the audit log.
type Cause struct {
	Actor  string // an account, an operator or a part of the service
	Action string // what the actor did; empty if it changed nothing itself
	Event  string // id of the webhook event; empty if there is none
}

// Change is the effect of applying a state.
type Change struct {
	Stale   bool                // the stored state has a greater ticket and was left unchanged
	Account string              // empty if the subscription belongs to no known account
	Before  *subscription.State // the state stored before; nil if there was none
	After   *subscription.State // the state stored now; nil if there is none
}

// Push is an entitlement that authquota has not acknowledged yet.
type Push struct {
	Account     string
	Entitlement api.Entitlement
}
