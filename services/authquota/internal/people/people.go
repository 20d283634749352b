// Package people defines the people who sign in to accounts.
package people

import (
	"net/mail"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// Person signs in to an account. Accounts created by operators have none.
type Person struct {
	account.Standing

	Account                string // account ID
	Email                  string
	AuthenticatorConfirmed bool // required for requesting keys
	RecoveryCodesLeft      int
	ResetAt                *time.Time // when a lost authenticator will be removed; nil if no removal was requested
	Tier                   api.Tier   // when the person was read
	SuspendedAt            *time.Time
	Terms                  *account.Terms // accepted last; nil before the first key request
	CreatedAt              time.Time
}

const maxEmail = 254 // RFC 5321 section 4.5.3.1

// Email returns the canonical form of an address and whether it is valid.
func Email(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s, false
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || len(s) > maxEmail {
		return s, false
	}
	_, domain, _ := strings.Cut(s, "@")
	return s, strings.Contains(domain, ".") && !strings.ContainsAny(s, "\"[](),;:<> ")
}

// NewSeed is the seed of an authenticator before its first code.
type NewSeed struct {
	Seed   string
	Sealed string // stored form; changes with each new seed
}

// CodeUsed returns the error for a code that was used before.
func CodeUsed() *problem.Error {
	return problem.New(problem.InvalidParameter, "This code was already used. Wait for the next one.")
}

// Suspended returns the error for closing a suspended account.
func Suspended() error {
	return problem.New(problem.InvalidParameter, "Your account is suspended. You can close it when it is resumed.")
}
