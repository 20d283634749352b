package account

import (
	"net/mail"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Person is somebody who signs in to an account. An account that an operator made has none.
type Person struct {
	Standing

	Account                string // id
	Email                  string
	AuthenticatorConfirmed bool // without it no key is to be had
	RecoveryCodesLeft      int
	ResetAt                *time.Time // when a lost authenticator is given up, where that was asked for
	Tier                   api.Tier   // when the person was read
	SuspendedAt            *time.Time
	Terms                  *Terms // accepted last; nil before the first key request
	CreatedAt              time.Time
}

const maxEmail = 254 // RFC 5321 section 4.5.3.1

// Email is an address in the form in which it is kept and compared, and whether it can be one.
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

// NewSeed is the seed of an authenticator that waits for its first code.
type NewSeed struct {
	Seed   string
	Sealed string // as it is kept; a later one differs
}

// CodeUsed is the refusal of a code that was used already.
func CodeUsed() *problem.Error {
	return problem.New(problem.InvalidParameter, "This code was used already. Wait for the next one.")
}
