package pages

import (
	"maps"
	"slices"
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
	"person.sign_in_failed":       "Failed to sign in",
	"person.confirm_failed":       "Failed to confirm",
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
	"key.request":                 "Key asked for",
	"key.rotate":                  "Key rotated",
	"key.revoke":                  "Key revoked",
	"account.merge":               "Older key connected",
	"account.suspend":             "Account suspended",
	"account.resume":              "Account resumed",
	"account.grant":               "Plan changed",
}

// told are the actions that have words.
func told() []string { return slices.Sorted(maps.Keys(words)) }

// tell puts an event into words.
func tell(e account.Event) event {
	var more []string
	for _, name := range []string{"factor", "with", "name", "agent", "network"} {
		if text, ok := e.Detail[name].(string); ok && text != "" {
			more = append(more, text)
		}
	}
	said := event{What: words[e.Action], More: strings.Join(more, ", "), By: "the operator", At: e.At}
	switch {
	case strings.HasSuffix(e.Action, "_failed"):
		said.By = "somebody" // who does not know the secret may be anybody
	case e.Own:
		said.By = "you"
	}
	return said
}
