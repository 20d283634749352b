// Package people defines the single-use, short-lived links sent by mail to prove control of an address.
package people

import (
	"time"

	"opportunity.internal/pkg/problem"
)

// LinkPurpose is the single use of a link.
type LinkPurpose string

const (
	LinkConfirm    LinkPurpose = "confirm"     // create an account for an address that has none
	LinkReset      LinkPurpose = "reset"       // reset the password
	LinkNewAddress LinkPurpose = "new-address" // another address for an account
	LinkOldAddress LinkPurpose = "old-address" // the change to another address is called off
	LinkLost       LinkPurpose = "lost"        // start the waiting period for a new authenticator
	LinkKeep       LinkPurpose = "keep"        // cancel that waiting period and keep the authenticator
	LinkUnusable   LinkPurpose = "none"        // never usable; stored so that all addresses take the same time
)

// ResetWait is the time between the request for a new authenticator and the removal of the old one, during which its owner can
// cancel.
const ResetWait = 72 * time.Hour

var linkLives = map[LinkPurpose]time.Duration{
	LinkConfirm: 24 * time.Hour, LinkReset: time.Hour, LinkNewAddress: 24 * time.Hour, LinkOldAddress: 24 * time.Hour, LinkLost: 24 * time.Hour, LinkKeep: ResetWait,
}

// Link is a link that was sent.
type Link struct {
	Purpose   LinkPurpose
	Account   string // empty if the account does not exist yet
	Email     string
	ExpiresAt time.Time
}

// FreshLink is a new link with its secret. Only session.Hash of the secret is stored.
type FreshLink struct {
	Link

	Secret string
}

// NewLink returns a new link.
func NewLink(purpose LinkPurpose, account, email string, now time.Time) FreshLink {
	return FreshLink{Link{purpose, account, email, now.Add(linkLives[purpose])}, NewSecret()}
}

// RequestedAt returns when the link was created.
func (l Link) RequestedAt() time.Time { return l.ExpiresAt.Add(-linkLives[l.Purpose]) }

// LinkGone returns the error for a link that has expired, was used or never existed.
func LinkGone() *problem.Error {
	return problem.New(problem.NotFound, "This link has expired or was already used. Request a new one.")
}
