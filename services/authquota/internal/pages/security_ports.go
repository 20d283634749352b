package pages

import (
	"context"
	"time"

	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/link"
	"opportunity.internal/services/authquota/internal/mail"
	"opportunity.internal/services/authquota/internal/passkey"
	"opportunity.internal/services/authquota/internal/session"
	"opportunity.internal/services/authquota/internal/throttle"
)

// What the pages under security call. Each change posts its mails and writes the audit log. A secret that is returned is the new one
// of the session, in place of the one before.

// Passkeys are a second factor; passkey.ErrRefused where one is gone or was copied.
type Passkeys interface {
	Passkeys(ctx context.Context, accountID string) ([]passkey.Passkey, error)
	AddPasskey(ctx context.Context, p passkey.Passkey) error
	RemovePasskey(ctx context.Context, accountID, id string) error
	SignInByPasskey(ctx context.Context, half session.Session, entry session.Entry, used passkey.Passkey, tried ...throttle.Subject) (session.Admitted, error)
}

// Challenges are what browsers were asked; not_found where one was not, or was asked too long ago, or has answered.
type Challenges interface {
	KeepChallenge(ctx context.Context, sessionID, purpose, kept string) error
	TakeChallenge(ctx context.Context, sessionID, purpose string) (kept string, err error)
}

// Proofs are factors that were proven anew.
type Proofs interface {
	ConfirmByPassword(ctx context.Context, current session.Session, hash string, tried ...throttle.Subject) (secret string, err error)
	ConfirmByCode(ctx context.Context, current session.Session, step int64, tried ...throttle.Subject) (secret string, err error)
	ConfirmByPasskey(ctx context.Context, current session.Session, used passkey.Passkey, tried ...throttle.Subject) (secret string, err error)
	ConfirmFailed(ctx context.Context, current session.Session, factor string) error
}

// Changes are those of the first factor and of the address.
type Changes interface {
	PasswordHash(ctx context.Context, accountID string) (string, error)
	ChangePassword(ctx context.Context, current session.Session, before, after string, tried ...throttle.Subject) (secret string, err error)
	AskNewAddress(ctx context.Context, l, keep link.Fresh, fresh, known, told mail.Message) error
	ChangeAddress(ctx context.Context, secret string) error
	// AddressChange is the one that waits for its link, or the zero one.
	AddressChange(ctx context.Context, accountID string) (link.Link, error)
	CallOffAddressChange(ctx context.Context, accountID string) error
	KeepAddress(ctx context.Context, secret string) error
}

// Replacements are authenticators that take the place of another.
type Replacements interface {
	ReplaceAuthenticator(ctx context.Context, current session.Session, seed account.NewSeed, step int64, tried ...throttle.Subject) (secret string, err error)
}

// Presence is where a person is signed in.
type Presence interface {
	OpenSessions(ctx context.Context, accountID string) ([]session.Session, error)
	EndSessions(ctx context.Context, accountID string) error
}

// Events are the entries of the audit log that a person should see.
type Events interface {
	Events(ctx context.Context, accountID string, actions []string, limit int) ([]account.Event, error)
	// Failures are the last of each action, with how often it happened since then.
	Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]account.Event, error)
}

// Closing ends an account for good.
type Closing interface {
	CloseAccount(ctx context.Context, accountID string) error
}
