package database

import (
	"errors"

	"opportunity.internal/pkg/problem"
)

// Outage is err, as problem.Unavailable if it says that the database is out of reach: what a store answers then. An error that
// is a problem already stays what it is.
func Outage(err error) error {
	if told := (*problem.Error)(nil); !errors.As(err, &told) && IsUnavailable(err) {
		return problem.Unavailable(err)
	}
	return err
}
