package database

import (
	"errors"

	"opportunity.internal/pkg/problem"
)

// Outage returns problem.Unavailable with cause err if IsUnavailable(err), otherwise err. An err
// that is already a problem.Error is returned unchanged.
func Outage(err error) error {
	if known := (*problem.Error)(nil); !errors.As(err, &known) && IsUnavailable(err) {
		return problem.Unavailable(err)
	}
	return err
}
