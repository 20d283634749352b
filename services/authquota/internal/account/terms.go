package account

import (
	"time"

	"opportunity.internal/pkg/problem"
)

// Terms is a version of the terms of use that an account accepted.
type Terms struct {
	Version    string
	AcceptedAt time.Time
}

// Acceptance is a form's reply to the terms of use.
type Acceptance struct {
	Version  string // in effect
	Accepted bool   // the form showed this version and it was accepted
}

// TermsNotAccepted returns the error for a key whose account has not accepted the terms of use in effect.
func TermsNotAccepted() error {
	return problem.New(problem.InvalidParameter, "Accept the terms of use to get a key.")
}
