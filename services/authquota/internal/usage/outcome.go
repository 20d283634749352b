package usage

import (
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Group is what the outcomes of calls have in common for whoever made them. A chart has one colour for each.
type Group int

const (
	Served Group = iota
	NotFound
	Refused // for a reason that the caller can do something about
	Failed  // by a fault of ours
)

// Groups is how many groups there are.
const Groups = 4

// Names are the words for the groups in pages and files, by Group.
var Names = [Groups]string{"Served", "Not found", "Rejected", "Failed"}

func (g Group) String() string { return Names[g] }

// GroupOf is the group of an outcome.
func GroupOf(o api.CallOutcome) Group {
	switch o {
	case api.CallServed:
		return Served
	case api.CallNotFound:
		return NotFound
	case api.CallFailed:
		return Failed
	default:
		return Refused
	}
}

// Figures are calls by Group.
type Figures [Groups]int

// Charged is how many requests of all groups are charged to the daily quota.
func (f Figures) Charged() int { return f[Served] + f[NotFound] }

// Total is the calls of all groups.
func (f Figures) Total() int {
	total := 0
	for _, calls := range f {
		total += calls
	}
	return total
}

// Plus is the sum of two figures, group by group.
func (f Figures) Plus(g Figures) Figures {
	for i := range f {
		f[i] += g[i]
	}
	return f
}

// Minus is the difference of two figures, group by group.
func (f Figures) Minus(g Figures) Figures {
	for i := range f {
		f[i] -= g[i]
	}
	return f
}

// Explained is an outcome in the words that its owner is told.
type Explained struct {
	Outcome api.CallOutcome
	Group   Group
	Name    string
	Meaning string
	Remedy  string // empty where there is nothing to do
	Code    problem.Code
	Charged bool // whether such calls are held against the allowance of the day
}

// own are the words for what has no error code, or more than one.
var own = map[api.CallOutcome]Explained{
	api.CallServed:   {Name: "Served", Meaning: "The answer was given, or was unchanged since the caller last asked (304)."},
	api.CallNotFound: {Name: "Not found", Code: problem.NotFound},
	api.CallBadRequest: {Name: "Bad request", Code: problem.InvalidParameter,
		Meaning: "The address or the query string had something in it that this operation does not take.",
		Remedy:  "The message of each such answer names what was wrong. The same request will fail again until it is corrected."},
	api.CallFailed: {Name: "Failed", Code: problem.ServiceUnavailable,
		Meaning: "Something of ours was out of reach or failed, or the caller left before the answer was there.",
		Remedy:  "Try again after the seconds in Retry-After, with growing pauses."},
}

var names = map[api.CallOutcome]string{
	api.CallSubscriptionRequired: "Not in the plan", api.CallAccountSuspended: "Account suspended",
	api.CallExpiredAPIKey: "Key expired", api.CallRevokedAPIKey: "Key revoked", api.CallMinuteLimitReached: "Minute limit",
	api.CallDailyLimitReached: "Daily limit", api.CallServiceCapacityReached: "Shared capacity",
}

// Explain tells what an outcome means. What has an error code of its own is told in the words of the table of codes.
func Explain(o api.CallOutcome) Explained {
	e, found := own[o]
	if !found {
		e = Explained{Name: names[o], Code: problem.Code(o)}
	}
	if e.Meaning == "" {
		at := slices.IndexFunc(problem.Table, func(entry problem.Entry) bool { return entry.Code == e.Code })
		if at >= 0 {
			e.Meaning, e.Remedy = problem.Table[at].Meaning, problem.Table[at].Remedy
		}
	}
	e.Outcome, e.Group, e.Charged = o, GroupOf(o), o.Charged()
	return e
}
