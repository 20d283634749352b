// Package account is who holds keys: accounts, their keys, and the rules for what operators do to them.
package account

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

// Account is a holder of keys. Its standing, its suspension and its allowance hold for all its keys alike.
type Account struct {
	Standing

	ID            string
	SuspendedAt   *time.Time // nil while the account may call
	SuspendReason string
	MergedInto    string     // the account that has taken over its keys; empty while it has them itself
	ClosedAt      *time.Time // when its person closed it, for good
	CreatedAt     time.Time
}

// State is what may still be done with an account.
type State string

// The states of an account.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended"
	StateClosed    State = "closed"
	StateMerged    State = "merged"
)

// State returns the state of the account. Closed and merged are final.
func (a Account) State() State {
	switch {
	case a.ClosedAt != nil:
		return StateClosed
	case a.MergedInto != "":
		return StateMerged
	case a.SuspendedAt != nil:
		return StateSuspended
	}
	return StateActive
}

// Listed is an account as the operators' list shows it.
type Listed struct {
	Account

	Email      string // of the person, where there is one
	UsedToday  int    // calls on the current UTC day, as the ledger has them
	ActiveKeys int
}

// Raise is a debt to the counter store: the account was changed, and its epoch there must still be raised.
type Raise struct {
	ID      int64
	Account string
}

var (
	accountID = regexp.MustCompile(`^acc_[0-9a-f]{32}$`)
	keyID     = regexp.MustCompile(`^key_[0-9a-f]{32}$`)
)

// NewID makes the id of an account. Ids made later sort later.
func NewID() string { return newID("acc_") }

// NewKeyID makes the id of a key, which says nothing about the key itself.
func NewKeyID() string { return newID("key_") }

func newID(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// Known refuses an id that cannot be an account's, as one that nobody has.
func Known(id string) error {
	if !accountID.MatchString(id) {
		return NotFound()
	}
	return nil
}

// NotFound is the refusal of an account id that nobody has.
func NotFound() error { return problem.New(problem.NotFound, "There is no account with this id.") }

// Merged is the refusal of an act on an account that another one has taken over.
func Merged(into string) error {
	return problem.New(problem.NotFound, "This account was joined to %s.", into)
}

// Closed returns the error for a change to an account that its person closed at.
func Closed(at time.Time) error {
	return problem.New(problem.InvalidParameter,
		"This account was closed on %s. Closing is final: it cannot get keys or a tier, and cannot be suspended or resumed.", When(at))
}

// Change is an act on an account.
type Change struct {
	Action string            // its name in the audit log
	Mail   string            // the mail to the account's person; empty for a tier, whose change has a mail only where it makes a difference
	Data   map[string]string // of that mail

	apply func(a *Account, now time.Time) map[string]any
}

// Apply does the act and returns what the audit log keeps of it, or nil where the account is as asked already: doing an act
// twice is no error and leaves no second trace.
func (c Change) Apply(a *Account, now time.Time) map[string]any { return c.apply(a, now) }

// Suspend rejects all requests of the account, starting with the next one. The mail to the account's person quotes the reason.
func Suspend(reason string) (Change, error) {
	reason, err := text("reason", reason)
	return Change{"account.suspend", "account-suspended", map[string]string{"reason": reason}, func(a *Account, now time.Time) map[string]any {
		if a.SuspendedAt != nil {
			return nil
		}
		a.SuspendedAt, a.SuspendReason = &now, reason
		return map[string]any{"reason": reason}
	}}, err
}

// Resume ends a suspension. The reason is for the audit log.
func Resume(reason string) (Change, error) {
	reason, err := text("reason", reason)
	return Change{"account.resume", "account-resumed", nil, func(a *Account, _ time.Time) map[string]any {
		if a.SuspendedAt == nil {
			return nil
		}
		a.SuspendedAt, a.SuspendReason = nil, ""
		return map[string]any{"reason": reason}
	}}, err
}

// Grant gives the account a tier, beside what it pays for. What it used today stays used.
func Grant(to api.Tier) (Change, error) {
	return Change{"account.grant", "", nil, func(a *Account, _ time.Time) map[string]any {
		from := a.Granted
		if from == to {
			return nil
		}
		a.Granted = to
		return map[string]any{"from": from, "to": to}
	}}, validTier(to)
}

func validTier(t api.Tier) error {
	names := make([]string, len(api.Tiers))
	for i, known := range api.Tiers {
		if t == known.Tier {
			return nil
		}
		names[i] = string(known.Tier)
	}
	return Invalid("tier", "must be one of "+strings.Join(names, ", "))
}

// Invalid refuses a field of a request's body; what completes the sentence "Field NAME ...".
func Invalid(field, what string) error {
	return problem.New(problem.InvalidParameter, "Field %s %s.", field, what)
}

// MaxName is how many characters the name of a key may have.
const MaxName = 60

const maxText = 500 // of any other line

func text(field, s string) (string, error) { return line(field, s, maxText) }

// KeyName accepts the name that a person gives a key.
func KeyName(s string) (string, error) { return line("name", s, MaxName) }

// line accepts a line that people write for people. Control characters are refused because some stores cannot keep them, those
// that show nothing or turn the direction of a text because they make one line look like another, keys because none may be kept.
func line(field, s string, most int) (string, error) {
	s = strings.TrimSpace(s)
	if n := utf8.RuneCountInString(s); n < 1 || n > most || !utf8.ValidString(s) {
		return "", Invalid(field, fmt.Sprintf("must have 1 to %d characters", most))
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }) {
		return "", Invalid(field, "must be one line without control or invisible characters")
	}
	if strings.Contains(s, apikey.Live) || strings.Contains(s, apikey.Test) {
		return "", Invalid(field, "must not contain an API key")
	}
	return s, nil
}
