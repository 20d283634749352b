// Package keys defines and stores keys and key requests.
//
// An operator issues a Key by an Order, or decides a person's Request, which becomes a key once it
// is collected. A person rotates a key, or connects an older one with the account that holds it. An
// Older key was issued by another system and is imported by its hash. Gateways look up what a key
// Resolved to, and learn which keys exist (KeyDigests). The key itself is never stored: Record is.
package keys

import (
	"cmp"
	"fmt"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// MaxLife is the longest life of a key, and its life unless an operator sets a shorter one.
const MaxLife = 365 * 24 * time.Hour

// MaxActive is the maximum number of active keys and pending requests of an account. A replaced key
// in its grace period does not count: its successor does.
const MaxActive = 5

// Grace is the time for which a rotated key stays valid, unless it expires first.
const Grace = 24 * time.Hour

// Key is a stored API key: enough to recognize it, not enough to use it.
type Key struct {
	account.Standing `gorm:"embedded"` // of the account

	ID       string `gorm:"primaryKey"`
	Account  string `gorm:"column:account_id"`
	Name     string // set by its holder; may be empty
	Prefix   string
	LastFour string
	UseCase  string
	// of the key and its successors, if an operator set one; 0 means MaxLife
	Life      time.Duration `gorm:"serializer:column"`
	CreatedAt time.Time     `gorm:"serializer:column"`
	ExpiresAt time.Time     `gorm:"serializer:column"`
	RevokedAt *time.Time    `gorm:"serializer:column"`
	// when its Successor was issued; ExpiresAt is then the end of the grace period
	ReplacedAt *time.Time `gorm:"serializer:column"`
	Successor  string     `gorm:"column:successor_id;serializer:column"`
	LastUsedAt *time.Time `gorm:"serializer:column"` // up to some seconds old; nil if never used
}

// Record is the stored form of a new key. Digest finds it; Prefix and LastFour let people recognize
// it.
type Record struct{ Digest, Prefix, LastFour string }

// Generate returns a new key, which a test key's prefix tells from others, and its stored form,
// hashed with the newest pepper.
func Generate(test bool, peppers [][]byte) (apikey.Key, Record) {
	prefix := apikey.Live
	if test {
		prefix = apikey.Test
	}
	key := apikey.Generate(prefix)
	prefix, last4 := key.Preview()
	return key, Record{key.Digests(peppers[:1])[0], prefix, last4}
}

// Status is the state of a key.
type Status string

const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Title returns the name of the key for display.
func (k Key) Title() string { return cmp.Or(k.Name, "Unnamed key") }

// Shown returns the visible part of the key.
func (k Key) Shown() string { return k.Prefix + "…" + k.LastFour }

// Counts reports whether the key counts towards MaxActive at now.
func (k Key) Counts(now time.Time) bool { return k.StatusAt(now) == Active && k.ReplacedAt == nil }

// SuccessorEnd returns when the successor of a key that is rotated at now expires: after a full
// life of its own.
func (k Key) SuccessorEnd(now time.Time) time.Time { return now.Add(cmp.Or(k.Life, MaxLife)) }

// GraceEnd returns when a key that is rotated at now ends.
func (k Key) GraceEnd(now time.Time) time.Time {
	if end := now.Add(Grace); end.Before(k.ExpiresAt) {
		return end
	}
	return k.ExpiresAt
}

// StatusAt returns the status of the key at now. A revoked key stays revoked after its expiry.
func (k Key) StatusAt(now time.Time) Status {
	switch {
	case k.RevokedAt != nil:
		return Revoked
	case !now.Before(k.ExpiresAt):
		return Expired
	default:
		return Active
	}
}

// Listed returns the key at now as operators see it.
func (k Key) Listed(now time.Time) api.ListedKey {
	return api.ListedKey{
		ID: k.ID, Account: k.Account, Tier: k.TierAt(now), Prefix: k.Prefix, LastFour: k.LastFour, UseCase: k.UseCase,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Status: string(k.StatusAt(now)),
		Name: k.Name, ReplacedAt: k.ReplacedAt, Successor: k.Successor, LastUsedAt: k.LastUsedAt,
	}
}

// Listed returns keys at now as operators see them.
func Listed(keys []Key, now time.Time) []api.ListedKey {
	list := make([]api.ListedKey, len(keys))
	for i, k := range keys {
		list[i] = k.Listed(now)
	}
	return list
}

// Filter selects keys for operators. Empty fields match every key.
type Filter struct {
	Account string // id
	UseCase string // exact
}

// Order describes a key to issue.
type Order struct {
	Account   string   `json:"account"` // empty: the key gets an account of its own
	Tier      api.Tier `json:"tier"`    // empty means the account's tier, or free for a new account
	UseCase   string   `json:"useCase"`
	ExpiresIn string   `json:"expiresIn"` // a duration such as 30d; empty: MaxLife
	Test      bool     `json:"test"`      // a test key, recognizable by its prefix
}

// Checked returns the order in its canonical form and the life of the key, or an error for the
// first invalid field.
func (o Order) Checked() (Order, time.Duration, error) {
	if o.Account != "" {
		if err := accountdb.CheckID("account", o.Account); err != nil {
			return o, 0, err
		}
	}
	if o.Tier == "" && o.Account == "" {
		o.Tier = api.BaseTier
	}
	if o.Tier != "" {
		if err := account.ValidTier(o.Tier); err != nil {
			return o, 0, err
		}
	}
	var err error
	if o.UseCase, err = account.Text("useCase", o.UseCase); err != nil {
		return o, 0, err
	}
	life := MaxLife
	if o.ExpiresIn != "" {
		life, err = api.ParseDuration(o.ExpiresIn)
		life = life.Truncate(time.Microsecond) // the precision of the database
		if err != nil || life <= 0 || life > MaxLife {
			return o, 0, problem.Invalid("expiresIn", "must be a duration such as 30d or 12h, above 0 and at most 365d")
		}
	}
	return o, life, nil
}

// NewID returns a key ID. It reveals nothing about the key itself.
func NewID() string { return accountdb.NewID("key_") }

// MaxName is the maximum length of a key name, in characters.
const MaxName = 60

// Name validates a key name and returns its canonical form.
func Name(s string) (string, error) { return account.Line("name", s, MaxName) }

// clockTolerance limits the delay of the clock of a gateway that ends paid periods on time by that
// clock.
const clockTolerance = time.Minute

// Principal returns the key as gateways see it at now, revoked and expired keys included. epoch
// must have been read before the key and suspended. It returns an error if the tier of the account
// is unknown.
//
// A paid period that ended within clockTolerance is still the tier, and its end the next change. So
// each gateway ends it by its own clock. There is one next change, so this holds only if no other
// follows.
func (k Resolved) Principal(now time.Time, tiers account.TierTable) (api.Principal, error) {
	if _, _, follows := k.ChangeAfter(now); !follows {
		now = now.Add(-clockTolerance)
	}
	current := k.TierAt(now)
	limits, ok := tiers[current]
	if !ok {
		return api.Principal{}, fmt.Errorf("account %s has the unknown tier %q", k.Account, current)
	}
	p := api.Principal{
		Key: k.ID, Account: k.Account, Tier: current, Limits: limits, Epoch: k.Epoch.Number,
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Suspended: k.Suspended,
	}
	if at, to, ok := k.ChangeAfter(now); ok {
		p.Next = &api.PrincipalChange{At: at, Tier: to, Limits: tiers[to]}
	}
	return p, nil
}

// DeclinedShown is the time for which a declined request stays on the page.
const DeclinedShown = 30 * 24 * time.Hour

func rejection(format string, args ...any) error {
	return problem.New(problem.InvalidParameter, format, args...)
}

// Errors for people who manage keys on the account pages. All are invalid_parameter.

// ErrNoTestKey is returned for a request for a test key of an account that has one, or is not on the
// base tier.
var ErrNoTestKey = rejection("Your account cannot get another test key: an account on the free plan has one. " +
	"Revoke it first, or request a live key.")

// NotOpen returns the error for collecting or withdrawing a request whose state does not allow it.
func NotOpen(state RequestState) error {
	switch state {
	case Pending:
		return rejection("This request is waiting for approval.")
	case Declined:
		return rejection("This request was declined.")
	}
	return rejection(
		"This request was already collected or withdrawn, perhaps in another tab. A key is shown once: if you missed it, " +
			"rotate it.")
}

// ErrNotRotatable is returned for rotating a key that has ended or was rotated.
var ErrNotRotatable = rejection(
	"This key has ended or was already rotated. If you missed the new key, revoke this one and rotate the new one.")
