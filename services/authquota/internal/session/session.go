// Package session is how long a person stays signed in: the rules for sessions, and the secrets that stand for them.
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Stage is how far a person has come in signing in.
type Stage string

const (
	Halfway Stage = "password" // the password is proven, the second factor is not
	Full    Stage = "full"
)

// How long a session lives without being used, and how long at most.
const (
	Idle        = 30 * time.Minute
	Life        = 12 * time.Hour
	HalfwayLife = 10 * time.Minute
	SetUpLife   = 30 * time.Minute // halfway, with an authenticator to be set up first: an app may have to be found
)

// RecentProof is how long after a proof of a factor what is delicate may be done.
const RecentProof = 10 * time.Minute

// Overlap is how long the secret before the last one still stands for its session: a form that was sent twice, or from another tab, is
// answered as part of it.
const Overlap = 10 * time.Second

// TouchEvery is how exactly the last use of a session is kept.
const TouchEvery = time.Minute

// Session is one browser's.
type Session struct {
	ID              string
	Account         string
	Stage           Stage
	CreatedAt       time.Time
	SeenAt          time.Time // to within TouchEvery
	AuthenticatedAt time.Time // the last proof of a factor
	ExpiresAt       time.Time // whatever happens
	EndedAt         *time.Time
	Superseded      bool // the browser came with the secret before the last one
	Client          Client
}

// Client is what is known of the browser.
type Client struct {
	Agent   string // such as "Firefox on Linux"
	Network string // part of its address, such as 203.0.113.0/24
}

// New begins a session of at most a life and makes the secret by which the browser is known again; only Hash of it is kept.
func New(account string, stage Stage, life time.Duration, client Client, now time.Time) (Session, string) {
	return Session{
		ID: "ses_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", ""), Account: account, Stage: stage,
		CreatedAt: now, SeenAt: now, AuthenticatedAt: now, ExpiresAt: now.Add(life), Client: client,
	}, Secret()
}

var id = regexp.MustCompile(`^ses_[0-9a-f]{32}$`)

// Known reports whether s has the form of a session's id.
func Known(s string) bool { return id.MatchString(s) }

// Alive reports whether the session still lets its browser in.
func (s Session) Alive(now time.Time) bool {
	return s.EndedAt == nil && now.Before(s.ExpiresAt) && now.Before(s.SeenAt.Add(Idle))
}

// Recent reports whether a factor was proven so lately that what is delicate may be done.
func (s Session) Recent(now time.Time) bool {
	return !s.Superseded && now.Before(s.AuthenticatedAt.Add(RecentProof)) // the proof was not given with the secret before
}

// Stale reports whether the last use must be written down anew.
func (s Session) Stale(now time.Time) bool { return !now.Before(s.SeenAt.Add(TouchEvery)) }

// Secret makes 256 bits that nobody can guess, as text that fits into a cookie and into a link.
func Secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Hash is what is kept of a Secret.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
