package account

import "opportunity.internal/pkg/problem"

// FieldError is the error for an invalid field. It wraps a problem for API callers, which names the
// field as in JSON.
type FieldError struct {
	Field  string // as in JSON
	Reason string // completes the sentence "Field NAME ...", such as "is unknown"
}

// Invalid returns the FieldError for a field. reason completes the sentence "Field NAME ...".
func Invalid(field, reason string) error { return FieldError{field, reason} }

// Error returns the message for the log.
func (e FieldError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the problem for API callers.
func (e FieldError) Unwrap() error {
	return problem.New(problem.InvalidParameter, "Field %s %s.", e.Field, e.Reason)
}

// Labeled returns the sentence for people, with the label of the field instead of its name.
func (e FieldError) Labeled(label string) string { return label + " " + e.Reason + "." }
