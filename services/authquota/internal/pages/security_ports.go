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

// Interfaces of the security pages. Each change sends its mails and writes the audit log. A returned secret is the session's
// new one.

// Passkeys stores passkeys; passkey.ErrRejected if one was removed or cloned.
type Passkeys interface {
	Passkeys(ctx context.Context, accountID string) ([]passkey.Passkey, error)
	AddPasskey(ctx context.Context, p passkey.Passkey) error
	RemovePasskey(ctx context.Context, accountID, id string) error
	SignInByPasskey(ctx context.Context, half session.Session, entry session.Entry, used passkey.Passkey, tried ...throttle.Subject) (session.Admitted, error)
}

// Challenges stores the challenges of browsers; not_found if there is none, or it was used or has expired.
type Challenges interface {
	SaveChallenge(ctx context.Context, sessionID, purpose, challenge string) error
	TakeChallenge(ctx context.Context, sessionID, purpose string) (challenge string, err error)
}

// Proofs records proofs of a factor.
type Proofs interface {
	ConfirmByPassword(ctx context.Context, current session.Session, hash string, tried ...throttle.Subject) (secret string, err error)
	ConfirmByCode(ctx context.Context, current session.Session, step int64, tried ...throttle.Subject) (secret string, err error)
	ConfirmByPasskey(ctx context.Context, current session.Session, used passkey.Passkey, tried ...throttle.Subject) (secret string, err error)
	ConfirmFailed(ctx context.Context, current session.Session, factor string) error
}

// Changes changes the password and the address.
type Changes interface {
	PasswordHash(ctx context.Context, accountID string) (string, error)
	ChangePassword(ctx context.Context, current session.Session, before, after string, tried ...throttle.Subject) (secret string, err error)
	RequestAddressChange(ctx context.Context, l, keep link.Fresh, fresh, known, notice mail.Message) error
	ChangeAddress(ctx context.Context, secret string) error
	// AddressChange returns the pending change, or the zero Link.
	AddressChange(ctx context.Context, accountID string) (link.Link, error)
	CancelAddressChange(ctx context.Context, accountID string) error
	KeepAddress(ctx context.Context, secret string) error
}

// Replacements replaces authenticators.
type Replacements interface {
	ReplaceAuthenticator(ctx context.Context, current session.Session, seed account.NewSeed, step int64, tried ...throttle.Subject) (secret string, err error)
}

// Presence lists and ends the sessions of a person.
type Presence interface {
	OpenSessions(ctx context.Context, accountID string) ([]session.Session, error)
	EndSessions(ctx context.Context, accountID string) error
}

// Events reads the audit log entries for a person.
type Events interface {
	Events(ctx context.Context, accountID string, actions []string, limit int) ([]account.Event, error)
	// Failures returns the latest event of each action, with the number of occurrences since then.
	Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]account.Event, error)
}

// Closing closes accounts.
type Closing interface {
	CloseAccount(ctx context.Context, accountID string) error
}
