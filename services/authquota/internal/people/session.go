// Package people defines the lifetimes, stages and secrets of browser sessions.
package people

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"opportunity.internal/services/authquota/internal/account"
)

// Stage is the progress of signing in.
type Stage string

const (
	Halfway Stage = "password" // the password is proven, the second factor is not
	Full    Stage = "full"
)

// Idle timeout and maximum lifetimes.
const (
	SessionIdle = 30 * time.Minute
	SessionLife = 12 * time.Hour
	HalfwayLife = 10 * time.Minute
	SetUpLife   = 30 * time.Minute // halfway, before the authenticator is set up: the person may have to install an app
)

// RecentProof is the time for which sensitive actions are allowed after proving a factor.
const RecentProof = 10 * time.Minute

// Overlap is the time for which the previous secret of a session stays valid, so that a form submitted twice or from another tab belongs
// to the same session.
const SecretOverlap = 10 * time.Second

// TouchEvery is the precision of SeenAt.
const TouchEvery = time.Minute

// Session is the session of one browser.
type Session struct {
	ID              string
	Account         string
	Stage           Stage
	CreatedAt       time.Time
	SeenAt          time.Time // to within TouchEvery
	AuthenticatedAt time.Time // last proof of a factor
	ExpiresAt       time.Time // regardless of activity
	EndedAt         *time.Time
	Superseded      bool // the browser presented the previous secret
	Client          Client
}

// Client describes a browser.
type Client struct {
	Agent   string // such as "Firefox on Linux"
	Network string // part of its address, such as 203.0.113.0/24
}

// NewSession returns a session that lives for at most life, and its secret. Only Hash of the secret is stored.
func NewSession(accountID string, stage Stage, life time.Duration, client Client, now time.Time) (Session, string) {
	return Session{
		ID: account.NewIDOf("ses_"), Account: accountID, Stage: stage,
		CreatedAt: now, SeenAt: now, AuthenticatedAt: now, ExpiresAt: now.Add(life), Client: client,
	}, NewSecret()
}

// ValidSessionID reports whether s has the form of a session ID.
func ValidSessionID(s string) bool { return account.ValidID("ses_", s) }

// Alive reports whether the session is valid at now.
func (s Session) Alive(now time.Time) bool {
	return s.EndedAt == nil && now.Before(s.ExpiresAt) && now.Before(s.SeenAt.Add(SessionIdle))
}

// Recent reports whether a factor was proven recently enough for sensitive actions.
func (s Session) Recent(now time.Time) bool {
	return !s.Superseded && now.Before(s.AuthenticatedAt.Add(RecentProof)) // the factor was proven with the new secret
}

// Stale reports whether SeenAt must be updated.
func (s Session) Stale(now time.Time) bool { return !now.Before(s.SeenAt.Add(TouchEvery)) }

// NewSecret returns 256 random bits as text for cookies and URLs.
func NewSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// HashSecret returns the stored form of a Secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
