package site

import "opportunity.internal/services/authquota/internal/account"

// Terms are the terms of use on a page.
type Terms struct {
	Version string         // in effect
	Last    *account.Terms // accepted last, or nil
}

// Accepted reports whether the version in effect was accepted.
func (t Terms) Accepted() bool { return t.Last != nil && t.Last.Version == t.Version }
