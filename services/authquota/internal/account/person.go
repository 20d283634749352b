package account

import (
	"net/mail"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
)

// Person is somebody who signs in to an account. An account that an operator made has none.
type Person struct {
	Account                string // id
	Email                  string
	AuthenticatorConfirmed bool // without it no key is to be had
	RecoveryCodesLeft      int
	ResetAt                *time.Time // when a lost authenticator is given up, where that was asked for
	Tier                   api.Tier
	SuspendedAt            *time.Time
	CreatedAt              time.Time
}

const maxEmail = 254 // RFC 5321 section 4.5.3.1

// Email is an address in the form in which it is kept and compared, and whether it can be one.
func Email(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || len(s) > maxEmail {
		return s, false
	}
	_, domain, _ := strings.Cut(s, "@")
	return s, strings.Contains(domain, ".") && !strings.ContainsAny(s, "\"[](),;:<> ")
}
