package pages

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/services/authquota/internal/account"
)

// event is an entry of the audit log in words.
type event struct {
	What string
	More string // with what, and from where
	By   string
	At   time.Time
}

// words for each action that a person is told of. Of those that are not here nothing is shown.
var words = map[string]string{
	"person.sign_up":              "Account made",
	"person.sign_in":              "Signed in",
	"person.password_change":      "Password changed",
	"person.password_reset_asked": "New password asked for by mail",
	"person.address_change_asked": "New e-mail address asked for",
	"person.address_change":       "E-mail address changed",
	"person.address_change_off":   "Change of the e-mail address called off",
	"factor.add":                  "Second factor added",
	"factor.remove":               "Second factor removed",
	"factor.reset_asked":          "Authenticator said to be lost",
	"factor.reset_begin":          "Wait for a new authenticator began",
	"factor.reset_cancel":         "Wait for a new authenticator ended",
	"recovery_code.use":           "Recovery code used",
	"recovery_code.renew":         "New recovery codes made",
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
	"plan.upgrade":                "Went to buy a plan",
	"plan.portal":                 "Went to the payment processor",
	"plan.cancel":                 "Asked to cancel the plan",
	"plan.resume":                 "Asked to resume the plan",
}

// failures are what anybody can make happen: of each one row is shown, with how often it happened.
var failures = map[string]string{
	"person.sign_in_failed": "Failed to sign in",
	"person.confirm_failed": "Failed to confirm",
}

const (
	shownEvents   = 20 // failures not counted
	failuresShown = 30 * 24 * time.Hour
)

// happened is what happened lately, the last first.
func (s *Site) happened(v *visit) (said []event, err error) {
	ctx := v.Request.Context()
	found, err := s.Events.Events(ctx, v.Person.Account, slices.Sorted(maps.Keys(words)), shownEvents)
	if err != nil {
		return nil, err
	}
	failed, err := s.Events.Failures(ctx, v.Person.Account, slices.Sorted(maps.Keys(failures)), v.now.Add(-failuresShown))
	for _, e := range slices.Concat(failed, found) {
		said = append(said, tell(e))
	}
	slices.SortStableFunc(said, func(a, b event) int { return b.At.Compare(a.At) })
	return said, err
}

// tell puts an event into words.
func tell(e account.Event) event {
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
		return event{what, strings.Join(more, ", "), "somebody", e.At} // who does not know the secret may be anybody
	}
	return event{words[e.Action], strings.Join(more, ", "), by, e.At}
}
