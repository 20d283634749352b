package keyusage

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// Request is a logged request with its key.
type Request struct {
	api.LoggedRequest

	KeyName  string // may be empty
	KeyShown string // how the key is displayed, such as oda_live_…A1b2
}

// Took returns the duration for display.
func (r Request) Took() string { return r.Duration.Round(time.Millisecond / 10).String() }

var route = regexp.MustCompile(`^/api(/[a-z0-9]+|/\{id\})+$`)

// CheckRequests validates the requests of a batch and returns those within the retention. Times in
// the future, from a gateway whose clock is ahead, count as now. Parameters and error codes that
// only another release knows are left out.
func CheckRequests(sent []api.LoggedRequest, now time.Time) ([]api.LoggedRequest, error) {
	if len(sent) > api.MaxUsageRequests {
		return nil, problem.Invalid("requests", fmt.Sprintf("must have at most %d entries", api.MaxUsageRequests))
	}
	var recent []api.LoggedRequest
	for i, r := range sent {
		if field := invalidField(r); field != "" {
			return nil, problem.Invalid(fmt.Sprintf("requests[%d].%s", i, field), "is invalid")
		}
		r.Params = api.LoggedParams(r.Params)
		if !slices.ContainsFunc(problem.Table, func(e problem.Entry) bool { return string(e.Code) == r.Code }) {
			r.Code = ""
		}
		if r.At.After(now) {
			r.At = now
		}
		if r.At.After(now.Add(-api.RequestLogDuration)) {
			recent = append(recent, r)
		}
	}
	return recent, nil
}

// invalidField returns the name of an invalidField field, or "".
func invalidField(r api.LoggedRequest) string {
	switch {
	case len(r.ID) != 36 || uuid.Validate(r.ID) != nil:
		return "id"
	case !account.ValidID("key_", r.Key):
		return "key"
	case !route.MatchString(r.Route):
		return "route"
	case r.Status < 100 || r.Status > 599:
		return "status"
	case r.Duration < 0 || r.Duration > 24*time.Hour:
		return "duration"
	}
	return ""
}

// Result is a group of responses.
type Result string

const (
	ResultSuccessful Result = "successful" // 2xx and 304
	ResultRejected   Result = "rejected"   // other than by an error of the service
	ResultFailed     Result = "failed"
)

// Results lists the groups in the order of the page.
var Results = []Result{ResultSuccessful, ResultRejected, ResultFailed}

// ResultOf returns the group of a status.
func ResultOf(status int) Result {
	switch {
	case status >= 500:
		return ResultFailed
	case status >= 400:
		return ResultRejected
	}
	return ResultSuccessful
}

// RequestFilter selects requests. Empty fields select all.
type RequestFilter struct {
	ID     string // of the request
	Key    string
	Result Result
}

// Apply returns the selected requests.
func (f RequestFilter) Apply(all []Request) (selected []Request) {
	for _, r := range all {
		if (f.ID == "" || f.ID == r.ID) && (f.Key == "" || f.Key == r.Key) && (f.Result == "" || f.Result == ResultOf(r.Status)) {
			selected = append(selected, r)
		}
	}
	return selected
}

// RequestPageSize is the number of requests on a page.
const RequestPageSize = 50

// RequestPage returns the requests of a page that come after the one with an id, and whether more
// follow. An unknown id, such as that of a request that has left the log, gives the first page.
func RequestPage(selected []Request, after string) (page []Request, more bool) {
	selected = selected[slices.IndexFunc(selected, func(r Request) bool { return r.ID == after })+1:]
	return selected[:min(len(selected), RequestPageSize)], len(selected) > RequestPageSize
}
