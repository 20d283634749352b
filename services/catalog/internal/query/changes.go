package query

import (
	"strconv"

	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/catalog/internal/listing"
)

// Now is the value of after for the newest position.
const Now = "now"

// Changes are the parameters of the changes operation.
type Changes struct {
	After    string           // a cursor, Now, or "" for the oldest changes that are kept
	Position listing.Position // of the cursor
	Limit    int
}

// ParseChanges reads a raw query string like Parse.
func ParseChanges(raw string, maxLimit int) (Changes, error) {
	v, err := params.Read(raw, "after", "limit")
	if err != nil {
		return Changes{}, err
	}
	q := Changes{After: v["after"]}
	if q.After != "" && q.After != Now {
		var ok bool
		if q.Position, ok = listing.ParseCursor(q.After); !ok {
			return Changes{}, problem.Invalid("after", "must be a cursor of an earlier response, or now")
		}
	}
	q.Limit, err = v.Limit(maxLimit)
	return q, err
}

// Params returns the canonical form of the parameters.
func (q Changes) Params() [][2]string {
	limit := [2]string{"limit", strconv.Itoa(q.Limit)}
	if q.After == "" {
		return [][2]string{limit}
	}
	return [][2]string{{"after", q.After}, limit}
}
