package account

import (
	"cmp"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

// MaxLife is the longest life of a key, and its life unless an operator sets a shorter one.
const MaxLife = 365 * 24 * time.Hour

// MaxActive is how many active keys and pending requests an account may have at a time. A replaced key in its grace period does not
// count: its successor does.
const MaxActive = 5

// Grace is how long a key stays valid after it was rotated, unless it expires first.
const Grace = 24 * time.Hour

// Key is what is kept of an API key: enough to recognise it, not enough to use it.
type Key struct {
	Standing // of the account

	ID         string
	Account    string
	Name       string // that its holder gave it; may be empty
	Prefix     string
	LastFour   string
	UseCase    string
	Life       time.Duration // of the key and its successors, where an operator set one; 0: MaxLife
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  *time.Time
	ReplacedAt *time.Time // when it got its Successor; ExpiresAt is the end of its grace then
	Successor  string
	LastUsedAt *time.Time // some seconds old at most; nil where it was never used
}

// Kept is what is kept of a new key: Digest finds it again, Prefix and LastFour let people recognise it.
type Kept struct{ Digest, Prefix, LastFour string }

// Keep is what to keep of a key, under the newest of the peppers.
func Keep(key apikey.Key, peppers [][]byte) Kept {
	prefix, last4 := key.Preview()
	return Kept{key.Digests(peppers[:1])[0], prefix, last4}
}

// Status is the state of a key.
type Status string

const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Title is what a person knows the key by.
func (k Key) Title() string { return cmp.Or(k.Name, "Unnamed key") }

// Shown is what may be shown of the key itself.
func (k Key) Shown() string { return k.Prefix + "…" + k.LastFour }

// Counts reports whether the key is one of the MaxActive at now.
func (k Key) Counts(now time.Time) bool { return k.StatusAt(now) == Active && k.ReplacedAt == nil }

// SuccessorEnd returns when the successor of a key that is rotated at now expires: after a full life of its own.
func (k Key) SuccessorEnd(now time.Time) time.Time { return now.Add(cmp.Or(k.Life, MaxLife)) }

// GraceEnd returns when a key that is rotated at now ends.
func (k Key) GraceEnd(now time.Time) time.Time {
	if end := now.Add(Grace); end.Before(k.ExpiresAt) {
		return end
	}
	return k.ExpiresAt
}

// StatusAt is the key's state at now. A revoked key stays revoked when it would have expired.
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

// KnownKey refuses an id that cannot be a key's, as one that nobody has.
func KnownKey(id string) error {
	if !keyID.MatchString(id) {
		return KeyNotFound()
	}
	return nil
}

// KeyNotFound is the refusal of a key id that nobody has.
func KeyNotFound() error { return problem.New(problem.NotFound, "There is no key with this id.") }

// TooManyKeys is the refusal of a key beyond MaxActive.
func TooManyKeys() error {
	return problem.New(problem.InvalidParameter,
		"This account has %d active keys, pending requests included, which is the most it can have. Revoke one first.", MaxActive)
}

// OtherTier returns the error for an order of a key of another tier than the one its account has.
func OtherTier(id string, has, want api.Tier) error {
	return problem.New(problem.InvalidParameter,
		"Account %s has the tier %s, not %s. Leave the tier out to issue a %[2]s key, or change the tier of the account and all its keys first: "+
			"opportunity accounts grant %[1]s %[3]s", id, has, want)
}

// Order asks for a key.
type Order struct {
	Account   string   `json:"account"` // empty: the key gets an account of its own
	Tier      api.Tier `json:"tier"`    // empty: the account's, free for a new one
	UseCase   string   `json:"useCase"`
	ExpiresIn string   `json:"expiresIn"` // a duration such as 30d; empty: MaxLife
	Test      bool     `json:"test"`      // a key for trying the service, recognisable by its prefix
}

// Checked is the order in its canonical form, with the life of the key. It refuses the first field that is wrong.
func (o Order) Checked() (Order, time.Duration, error) {
	if o.Account != "" {
		if err := Known(o.Account); err != nil {
			return o, 0, err
		}
	}
	if o.Tier == "" && o.Account == "" {
		o.Tier = api.Free
	}
	if o.Tier != "" {
		if err := validTier(o.Tier); err != nil {
			return o, 0, err
		}
	}
	var err error
	if o.UseCase, err = text("useCase", o.UseCase); err != nil {
		return o, 0, err
	}
	life := MaxLife
	if o.ExpiresIn != "" {
		life, err = api.ParseDuration(o.ExpiresIn)
		life = life.Truncate(time.Microsecond) // what the database keeps
		if err != nil || life <= 0 || life > MaxLife {
			return o, 0, Invalid("expiresIn", "must be a duration such as 30d or 12h, above 0 and at most 365d")
		}
	}
	return o, life, nil
}

// Prefix is the prefix of the key that is ordered.
func (o Order) Prefix() string {
	if o.Test {
		return apikey.Test
	}
	return apikey.Live
}
