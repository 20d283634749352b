package accountview

import "time"

// Event is an audit log entry for the account's person.
type Event struct {
	At     time.Time
	Action string
	Own    bool // by the person, as far as is known
	Detail map[string]any
	Times  int // number of occurrences, if it stands for several
}

// Actions maps the actions that people see to their text. Other actions are not shown.
var Actions = map[string]string{
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

// Failures maps actions that anyone can cause to their text. Each is shown in one row with the number of occurrences.
var Failures = map[string]string{
	"person.sign_in_failed": "Failed to sign in",
	"person.confirm_failed": "Failed to confirm",
}
