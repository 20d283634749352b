// Package account defines what the features share about an account: its tier, suspension and terms.
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

// Account holds keys. Its tier, suspension and quota apply to all of them.
type Account struct {
	Standing

	ID            string
	SuspendedAt   *time.Time // nil unless suspended
	SuspendReason string
	MergedInto    string     // the account that took over its keys; empty if none
	ClosedAt      *time.Time // when its person closed it; final
	CreatedAt     time.Time
}

// State is the state of an account.
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

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// NewID returns an account ID. IDs sort by creation time.
func NewID() string { return NewIDOf("acc_") }

// NewIDOf returns an ID with a prefix. IDs sort by creation time.
func NewIDOf(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// ValidID reports whether s has the form of an ID with a prefix.
func ValidID(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && idForm.MatchString(rest)
}

// CheckID returns NotFound for an ID that does not have the form of an account ID.
func CheckID(id string) error {
	if !ValidID("acc_", id) {
		return NotFound()
	}
	return nil
}

// NotFound returns the error for an unknown account ID.
func NotFound() error { return problem.New(problem.NotFound, "There is no account with this id.") }

// Merged returns the error for a change to an account that was merged into another one.
func Merged(into string) error {
	return problem.New(problem.NotFound, "This account was merged into %s.", into)
}

// Closed returns the error for a change to an account that its person closed at.
func Closed(at time.Time) error {
	return problem.New(problem.InvalidParameter,
		"This account was closed on %s. Closing is final: it cannot get keys or a tier, and cannot be suspended or resumed.", When(at))
}

// Change is an operator's change to an account.
type Change struct {
	Action string            // action in the audit log
	Mail   string            // mail to the account's person; empty for Grant, which sends a mail only if the tier differs
	Data   map[string]string // of that mail

	apply func(a *Account, now time.Time) map[string]any
}

// Apply applies the change and returns the detail of its audit log entry. It returns nil if the account has this state already;
// repeating a change is not an error.
func (c Change) Apply(a *Account, now time.Time) map[string]any { return c.apply(a, now) }

// Suspend rejects all requests of the account, starting with the next one. The mail to the account's person quotes the reason. Another reason
// for a suspended account replaces the first one, unless it is api.ReasonNotStated.
func Suspend(reason string) (Change, error) {
	reason, err := Text("reason", reason)
	return Change{"account.suspend", "account-suspended", map[string]string{"reason": reason}, func(a *Account, now time.Time) map[string]any {
		if a.SuspendedAt == nil {
			a.SuspendedAt, a.SuspendReason = &now, reason
			return map[string]any{"reason": reason}
		}
		before := a.SuspendReason
		if reason == before || reason == api.ReasonNotStated {
			return nil
		}
		a.SuspendReason = reason
		return map[string]any{"reason": reason, "before": before}
	}}, err
}

// Resume ends a suspension. The reason is for the audit log.
func Resume(reason string) (Change, error) {
	reason, err := Text("reason", reason)
	return Change{"account.resume", "account-resumed", nil, func(a *Account, _ time.Time) map[string]any {
		if a.SuspendedAt == nil {
			return nil
		}
		a.SuspendedAt, a.SuspendReason = nil, ""
		return map[string]any{"reason": reason}
	}}, err
}

// Grant sets the granted tier of the account. Paid tiers are unaffected, and so is today's usage.
func Grant(to api.Tier) (Change, error) {
	return Change{"account.grant", "", nil, func(a *Account, _ time.Time) map[string]any {
		from := a.Granted
		if from == to {
			return nil
		}
		a.Granted = to
		return map[string]any{"from": from, "to": to}
	}}, ValidTier(to)
}

// ValidTier returns a FieldError for an unknown tier.
func ValidTier(t api.Tier) error {
	if t.Rank() < 0 {
		return Invalid("tier", "must be one of "+TierNames())
	}
	return nil
}

// TierNames returns the names of all tiers.
func TierNames() string {
	names := make([]string, len(api.Tiers))
	for i, known := range api.Tiers {
		names[i] = string(known.Tier)
	}
	return strings.Join(names, ", ")
}

const maxText = 500 // of other lines

// Text validates a line of text, such as a reason, and returns its canonical form.
func Text(field, s string) (string, error) { return Line(field, s, maxText) }

// Line validates a single line of at most most characters and returns its canonical form. It rejects control characters, which some databases cannot store; invisible and
// bidirectional characters, which make a line look like another; and API keys, which must never be stored.
func Line(field, s string, most int) (string, error) {
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

// When formats a time for people.
func When(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 UTC") }

// Better returns the higher of two tiers.
func Better(a, b api.Tier) api.Tier {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}
