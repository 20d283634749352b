package accountpages

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/services/authquota/internal/people"
)

// event is an audit log entry as text.
type event struct {
	What string
	More string // factor and location
	By   string
	At   time.Time
}

const (
	shownEvents   = 20 // without failures
	failuresShown = 30 * 24 * time.Hour
)

// recentEvents returns the recent events, newest first.
func (p *Pages) recentEvents(v *Visit) (list []event, err error) {
	ctx := v.Request.Context()
	logged, err := p.People.Events(ctx, v.Person.Account, slices.Sorted(maps.Keys(people.Actions)), shownEvents)
	if err != nil {
		return nil, err
	}
	failed, err := p.People.Failures(ctx, v.Person.Account, slices.Sorted(maps.Keys(people.Failures)), v.Now.Add(-failuresShown))
	for _, e := range slices.Concat(failed, logged) {
		list = append(list, describe(e))
	}
	slices.SortStableFunc(list, func(a, b event) int { return b.At.Compare(a.At) })
	return list, err
}

func describe(e people.Event) event {
	var more []string
	for _, name := range []string{"factor", "with", "name", "version", "agent", "network"} {
		if text, ok := e.Detail[name].(string); ok && text != "" {
			more = append(more, text)
		}
	}
	by := "the operator"
	switch {
	case e.Own:
		by = "you"
	case e.Auto:
		by = "automatic"
	}
	if what, failed := people.Failures[e.Action]; failed {
		if e.Times > 1 {
			more = append(more, strconv.Itoa(e.Times)+" times in 30 days")
		}
		return event{what, strings.Join(more, ", "), "unknown", e.At} // without the secret, the person is unknown
	}
	return event{people.Actions[e.Action], strings.Join(more, ", "), by, e.At}
}
