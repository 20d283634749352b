package pages

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// Interfaces of the pages for signing up and in. Each change sends its mails and writes the audit log.

// Tries delays guessing.
type Tries interface {
	// Try counts an attempt. If the subject must wait, it returns the delay.
	Try(ctx context.Context, subjects ...throttle.Subject) (wait time.Duration, err error)
	// KnownDevice reports whether the browser with this secret's hash has signed in to the account before.
	KnownDevice(ctx context.Context, accountID, hash string) (bool, error)
}

// Links stores links sent by mail. Invalid links are link.Gone.
type Links interface {
	Link(ctx context.Context, secret string, purpose link.Purpose) (link.Link, error)
}

// SignUps creates accounts for verified addresses.
type SignUps interface {
	RequestSignUp(ctx context.Context, l link.Fresh, fresh, known mail.Message) error
	SignUp(ctx context.Context, secret, passwordHash string, entry session.Entry) (session.Admitted, error)
}

// Passwords stores the first factor.
type Passwords interface {
	// Credentials returns empty strings if no account has the address.
	Credentials(ctx context.Context, email string) (accountID, passwordHash string, err error)
	Rehash(ctx context.Context, accountID, before, after string) error
	SignInHalfway(ctx context.Context, accountID string, entry session.Entry, tried ...throttle.Subject) (session.Admitted, error)
	// SignInFailed takes the same time if accountID is empty.
	SignInFailed(ctx context.Context, accountID, with string, client session.Client, subject throttle.Subject) error
}

// Resets resets forgotten passwords.
type Resets interface {
	RequestReset(ctx context.Context, l link.Fresh, message mail.Message) error
	ResetPassword(ctx context.Context, secret, passwordHash string, entry session.Entry, tried ...throttle.Subject) error
}

// Authenticators sets up the second factor.
type Authenticators interface {
	// NewSeed returns the seed to show. It stays the same during set-up.
	NewSeed(ctx context.Context, current session.Session) (account.NewSeed, error)
	// ConfirmAuthenticator returns account.CodeUsed if a concurrent request was first.
	ConfirmAuthenticator(ctx context.Context, half session.Session, entry session.Entry, seed account.NewSeed, step int64, codes []string,
		tried ...throttle.Subject) (session.Admitted, error)
	RenewCodes(ctx context.Context, accountID string, hashes []string) error
}

// Codes verifies the second factor; account.CodeUsed if a code was used before.
type Codes interface {
	Seed(ctx context.Context, accountID string) (string, error)
	SignInByCode(ctx context.Context, half session.Session, entry session.Entry, step int64, tried ...throttle.Subject) (session.Admitted, error)
	SignInByRecoveryCode(ctx context.Context, half session.Session, entry session.Entry, hash string, tried ...throttle.Subject) (session.Admitted, error)
}

// Losses handles lost authenticators.
type Losses interface {
	RequestNewAuthenticator(ctx context.Context, accountID string, lost, keep link.Fresh, message mail.Message) error
	BeginReset(ctx context.Context, secret string) (at time.Time, err error)
	CancelReset(ctx context.Context, secret string) error
	KeepAuthenticator(ctx context.Context, accountID string) error
}
