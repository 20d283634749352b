package pages

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/services/authquota/internal/accounts"
	"opportunity.internal/services/authquota/internal/site"
)

// Events reads the audit log for a person.
type Events interface {
	// Events returns the latest entries of the audit log for a person.
	Events(ctx context.Context, accountID string, actions []string, limit int) ([]accounts.Event, error)
	// Failures returns the latest event of each action, with the number of occurrences since then.
	Failures(ctx context.Context, accountID string, actions []string, since time.Time) ([]accounts.Event, error)
}

// event is an audit log entry as text.
type event struct {
	What string
	More string // factor and location
	By   string
	At   time.Time
}

// words maps visible actions to their text. Other actions are not shown.
var words = map[string]string{
	"person.sign_up":              "Account created",
	"person.sign_in":              "Signed in",
	"person.password_change":      "Password changed",
	"person.password_reset_asked": "Password reset requested",
	"person.address_change_asked": "E-mail address change requested",
	"person.address_change":       "E-mail address changed",
	"person.address_change_off":   "E-mail address change cancelled",
	"factor.add":                  "Second factor added",
	"factor.remove":               "Second factor removed",
	"factor.reset_asked":          "Authenticator reported lost",
	"factor.reset_begin":          "Authenticator removal scheduled",
	"factor.reset_cancel":         "Authenticator removal cancelled",
	"recovery_code.use":           "Recovery code used",
	"recovery_code.renew":         "New recovery codes created",
	"session.end":                 "Signed out",
	"key.request":                 "Key requested",
	"key.withdraw":                "Key request withdrawn",
	"key.approve":                 "Key request approved",
	"key.decline":                 "Key request declined",
	"key.issue":                   "Key created",
	"key.import":                  "Older key added",
	"key.rename":                  "Key renamed",
	"key.rotate":                  "Key rotated",
	"key.revoke":                  "Key revoked",
	"terms.accept":                "Terms of use accepted",
	"account.merge":               "Older key connected",
	"account.suspend":             "Account suspended",
	"account.resume":              "Account resumed",
	"account.grant":               "Plan changed",
	"plan.upgrade":                "Checkout opened",
	"plan.portal":                 "Payment portal opened",
	"plan.cancel":                 "Plan cancellation requested",
	"plan.resume":                 "Plan resumption requested",
}

// failures maps actions that anyone can cause to their text. Each is shown in one row with the number of occurrences.
var failures = map[string]string{
	"person.sign_in_failed": "Failed to sign in",
	"person.confirm_failed": "Failed to confirm",
}

const (
	shownEvents   = 20 // without failures
	failuresShown = 30 * 24 * time.Hour
)

// recentEvents returns the recent events, newest first.
func (p *Pages) recentEvents(v *site.Visit) (list []event, err error) {
	ctx := v.Request.Context()
	logged, err := p.Events.Events(ctx, v.Person.Account, slices.Sorted(maps.Keys(words)), shownEvents)
	if err != nil {
		return nil, err
	}
	failed, err := p.Events.Failures(ctx, v.Person.Account, slices.Sorted(maps.Keys(failures)), v.Now.Add(-failuresShown))
	for _, e := range slices.Concat(failed, logged) {
		list = append(list, describe(e))
	}
	slices.SortStableFunc(list, func(a, b event) int { return b.At.Compare(a.At) })
	return list, err
}

// describe returns the text of an event.
func describe(e accounts.Event) event {
	var more []string
	for _, name := range []string{"factor", "with", "name", "version", "agent", "network"} {
		if text, ok := e.Detail[name].(string); ok && text != "" {
			more = append(more, text)
		}
	}
	by := "the operator"
	if e.Own {
		by = "you"
	}
	if what, failed := failures[e.Action]; failed {
		if e.Times > 1 {
			more = append(more, strconv.Itoa(e.Times)+" times in 30 days")
		}
		return event{what, strings.Join(more, ", "), "unknown", e.At} // without the secret, the person is unknown
	}
	return event{words[e.Action], strings.Join(more, ", "), by, e.At}
}
