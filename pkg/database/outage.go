package database

import "opportunity.internal/pkg/problem"

// Outage is err, as problem.Unavailable if it says that the database is out of reach: what a store answers then.
func Outage(err error) error {
	if IsUnavailable(err) {
		return problem.Unavailable(err)
	}
	return err
}
