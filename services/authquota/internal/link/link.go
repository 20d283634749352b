// Package link is what a person gets by mail to prove that the address is theirs: it works once, and not for long.
package link

import (
	"time"

	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/session"
)

// Purpose is the one thing that a link is good for.
type Purpose string

const (
	Confirm    Purpose = "confirm"     // an account for an address that has none
	Reset      Purpose = "reset"       // a new password
	NewAddress Purpose = "new-address" // another address for an account
	OldAddress Purpose = "old-address" // the change to another address is called off
	Lost       Purpose = "lost"        // the wait for a new authenticator begins
	Keep       Purpose = "keep"        // that wait ends, the authenticator stays
	Nothing    Purpose = "none"        // never: it is written so that all addresses take the same time
)

// ResetWait is how long the owner of a lost authenticator has for saying that it is not lost, from when that was said.
const ResetWait = 72 * time.Hour

var lives = map[Purpose]time.Duration{
	Confirm: 24 * time.Hour, Reset: time.Hour, NewAddress: 24 * time.Hour, OldAddress: 24 * time.Hour, Lost: 24 * time.Hour, Keep: ResetWait,
}

// Link is a link that was sent.
type Link struct {
	Purpose   Purpose
	Account   string // empty where there is none yet
	Email     string
	ExpiresAt time.Time
}

// Fresh is a link with the secret in it; what is kept of that is its session.Hash.
type Fresh struct {
	Link

	Secret string
}

// New makes a link.
func New(purpose Purpose, account, email string, now time.Time) Fresh {
	return Fresh{Link{purpose, account, email, now.Add(lives[purpose])}, session.Secret()}
}

// AskedAt is when the link was made.
func (l Link) AskedAt() time.Time { return l.ExpiresAt.Add(-lives[l.Purpose]) }

// Gone is the refusal of a link that does not work any more, or never did.
func Gone() *problem.Error {
	return problem.New(problem.NotFound, "This link was used already, or its time is over. Ask for a new one.")
}
