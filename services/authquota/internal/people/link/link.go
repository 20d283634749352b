// Package link defines the single-use, short-lived links sent by mail to prove control of an address.
package link

import (
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/people/session"
)

// Purpose is the single use of a link.
type Purpose string

const (
	Confirm    Purpose = "confirm"     // create an account for an address that has none
	Reset      Purpose = "reset"       // reset the password
	NewAddress Purpose = "new-address" // another address for an account
	OldAddress Purpose = "old-address" // the change to another address is called off
	Lost       Purpose = "lost"        // start the waiting period for a new authenticator
	Keep       Purpose = "keep"        // cancel that waiting period and keep the authenticator
	Nothing    Purpose = "none"        // never usable; stored so that all addresses take the same time
)

// ResetWait is the time between the request for a new authenticator and the removal of the old one, during which its owner can
// cancel.
const ResetWait = 72 * time.Hour

var lives = map[Purpose]time.Duration{
	Confirm: 24 * time.Hour, Reset: time.Hour, NewAddress: 24 * time.Hour, OldAddress: 24 * time.Hour, Lost: 24 * time.Hour, Keep: ResetWait,
}

// Link is a link that was sent.
type Link struct {
	Purpose   Purpose
	Account   string // empty if the account does not exist yet
	Email     string
	ExpiresAt time.Time
}

// Fresh is a new link with its secret. Only session.Hash of the secret is stored.
type Fresh struct {
	Link

	Secret string
}

// New returns a new link.
func New(purpose Purpose, account, email string, now time.Time) Fresh {
	return Fresh{Link{purpose, account, email, now.Add(lives[purpose])}, session.Secret()}
}

// RequestedAt returns when the link was created.
func (l Link) RequestedAt() time.Time { return l.ExpiresAt.Add(-lives[l.Purpose]) }

// Gone returns the error for a link that has expired, was used or never existed.
func Gone() *problem.Error {
	return problem.New(problem.NotFound, "This link has expired or was already used. Request a new one.")
}
