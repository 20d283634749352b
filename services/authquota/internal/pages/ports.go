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

// What the pages for signing up and in call. Each posts the mails of what it does and writes it into the audit log.

// Tries slows down whoever guesses.
type Tries interface {
	// Try counts a try; where it must wait, it says for how long.
	Try(ctx context.Context, subjects ...throttle.Subject) (wait time.Duration, err error)
	// KnownDevice reports whether a browser has signed in to an account before, by the hash of its secret.
	KnownDevice(ctx context.Context, accountID, hash string) (bool, error)
}

// Links are those that were sent by mail; link.Gone where one does not work any more.
type Links interface {
	Link(ctx context.Context, secret string, purpose link.Purpose) (link.Link, error)
}

// SignUps makes accounts for addresses that were proven.
type SignUps interface {
	AskSignUp(ctx context.Context, l link.Fresh, fresh, known mail.Message) error
	SignUp(ctx context.Context, secret, passwordHash string, entry session.Entry) (session.Admitted, error)
}

// Passwords are the first factor.
type Passwords interface {
	// Credentials are empty where nobody has the address.
	Credentials(ctx context.Context, email string) (accountID, passwordHash string, err error)
	Rehash(ctx context.Context, accountID, before, after string) error
	SignInHalfway(ctx context.Context, accountID string, entry session.Entry, tried ...throttle.Subject) (session.Admitted, error)
	// SignInFailed takes the same time for an empty account.
	SignInFailed(ctx context.Context, accountID, with string, client session.Client, subject throttle.Subject) error
}

// Resets are passwords that were forgotten.
type Resets interface {
	AskReset(ctx context.Context, l link.Fresh, message mail.Message) error
	ResetPassword(ctx context.Context, secret, passwordHash string, entry session.Entry, tried ...throttle.Subject) error
}

// Authenticators are the second factor being set up.
type Authenticators interface {
	// NewSeed is what a browser is shown: the same for as long as a set-up may take.
	NewSeed(ctx context.Context, current session.Session) (account.NewSeed, error)
	// ConfirmAuthenticator is refused with account.CodeUsed where another browser was quicker.
	ConfirmAuthenticator(ctx context.Context, half session.Session, entry session.Entry, seed account.NewSeed, step int64, codes []string,
		tried ...throttle.Subject) (session.Admitted, error)
	RenewCodes(ctx context.Context, accountID string, hashes []string) error
}

// Codes are the second factor being asked for; account.CodeUsed where one does not work any more.
type Codes interface {
	Seed(ctx context.Context, accountID string) (string, error)
	SignInByCode(ctx context.Context, half session.Session, entry session.Entry, step int64, tried ...throttle.Subject) (session.Admitted, error)
	SignInByRecoveryCode(ctx context.Context, half session.Session, entry session.Entry, hash string, tried ...throttle.Subject) (session.Admitted, error)
}

// Losses are authenticators that are said to be lost.
type Losses interface {
	AskNewAuthenticator(ctx context.Context, accountID string, lost, keep link.Fresh, message mail.Message) error
	BeginReset(ctx context.Context, secret string) (at time.Time, err error)
	CancelReset(ctx context.Context, secret string) error
	KeepAuthenticator(ctx context.Context, accountID string) error
}
