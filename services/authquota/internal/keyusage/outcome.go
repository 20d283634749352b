package keyusage

import (
	"slices"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// Group is a group of outcomes. A chart has one color for each.
type Group int

const (
	Served Group = iota
	NotFound
	Rejected // for a reason the caller can fix
	Failed   // by an error of the service
)

// Groups is the number of groups.
const Groups = 4

// Names are the labels of the groups in pages and files, by Group.
var Names = [Groups]string{"Served", "Not found", "Rejected", "Failed"}

func (g Group) String() string { return Names[g] }

// GroupOf returns the group of an outcome.
func GroupOf(o api.CallOutcome) Group {
	switch o {
	case api.CallServed:
		return Served
	case api.CallNotFound:
		return NotFound
	case api.CallFailed:
		return Failed
	default:
		return Rejected
	}
}

// Figures are numbers of requests by Group.
type Figures [Groups]int

// Charged returns the requests that count against the daily quota.
func (f Figures) Charged() int { return f[Served] + f[NotFound] }

// Total returns the requests of all groups.
func (f Figures) Total() int {
	total := 0
	for _, calls := range f {
		total += calls
	}
	return total
}

// Plus returns the sum of two figures by group.
func (f Figures) Plus(g Figures) Figures {
	for i := range f {
		f[i] += g[i]
	}
	return f
}

// Minus returns the difference of two figures by group.
func (f Figures) Minus(g Figures) Figures {
	for i := range f {
		f[i] -= g[i]
	}
	return f
}

// Explained is the explanation of an outcome for consumers.
type Explained struct {
	Outcome api.CallOutcome
	Group   Group
	Name    string
	Meaning string
	Remedy  string // empty if there is nothing to do
	Code    problem.Code
	Charged bool // whether such requests count against the daily quota
}

// own are the explanations of outcomes with no error code or with several.
var own = map[api.CallOutcome]Explained{
	api.CallServed:   {Name: "Served", Meaning: "The response was sent, or had not changed since the last request (304)."},
	api.CallNotFound: {Name: "Not found", Code: problem.NotFound},
	api.CallBadRequest: {Name: "Bad request", Code: problem.InvalidParameter,
		Meaning: "The path or the query string contained something that this operation does not accept, or a cursor expired.",
		Remedy:  "The error message names the problem. Correct the request before you send it again."},
	api.CallFailed: {Name: "Failed", Code: problem.ServiceUnavailable,
		Meaning: "The service was unavailable or failed, or the client closed the connection before the response.",
		Remedy:  "Retry after the number of seconds in Retry-After, with exponential backoff."},
}

var names = map[api.CallOutcome]string{
	api.CallSubscriptionRequired: "Not in the plan", api.CallAccountSuspended: "Account suspended",
	api.CallExpiredAPIKey: "Key expired", api.CallRevokedAPIKey: "Key revoked", api.CallMinuteLimitReached: "Minute limit",
	api.CallDailyLimitReached: "Daily limit", api.CallServiceCapacityReached: "Shared capacity",
}

// Explain returns the explanation of an outcome. Outcomes with one error code use the text of the
// error code table.
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
