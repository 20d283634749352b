package accountpages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
)

// result is the response to a call, with the call as programs.
type result struct {
	api.ExplorerResult

	Target   string
	Programs []apidoc.Program
	Public   string
}

// explorerResult shows the result of a call, which the gateway sends, below its form.
func (p *Pages) explorerResult(v *Visit) (pages.View, error) {
	var received api.ExplorerResult
	if err := json.NewDecoder(v.Request.Body).Decode(&received); err != nil {
		return pages.View{}, problem.New(problem.InvalidParameter, "The result could not be read.").Because(err)
	}
	values, err := url.ParseQuery(string(received.Form))
	if err != nil {
		return pages.View{}, problem.New(problem.InvalidParameter, "The form could not be read.").Because(err)
	}
	shown, call, err := p.fill(v, values)
	if err != nil {
		return pages.View{}, err
	}
	programs, err := call.Programs()
	data := shown.Data.(explorer) //nolint:forcetypeassert // set by fill
	data.Result = &result{received, call.Target(), programs, p.PublicURL}
	shown.Data, shown.Errors = data, nil
	return shown, err
}

// Reason returns the status with its name.
func (r result) Reason() string { return fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)) }

// Tone returns the CSS class of the status badge.
func (r result) Tone() string {
	if r.Status < http.StatusBadRequest {
		return "good"
	}
	return "bad"
}

// Remaining returns the remaining quota of the day after the call, or -1 if the response does not
// state it.
func (r result) Remaining() int { return r.number("X-RateLimit-Remaining") }

// Before returns the remaining quota of the day before the call.
func (r result) Before() int {
	if r.Charged {
		return r.Remaining() + 1
	}
	return r.Remaining()
}

// Limit returns the quota of a day.
func (r result) Limit() int { return r.number("X-RateLimit-Limit") }

func (r result) number(header string) int {
	n, err := strconv.Atoi(r.Value(header))
	if err != nil {
		return -1
	}
	return n
}

// Head returns the headers, one a line.
func (r result) Head() string {
	var lines []string
	for name, values := range r.Header {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Cut reports whether only the start of the body is shown.
func (r result) Cut() bool { return r.Size > len(r.Body) }

// Text returns the body, indented if it is complete.
func (r result) Text() string {
	var indented bytes.Buffer
	if r.Cut() || json.Indent(&indented, r.Body, "", "  ") != nil {
		return strings.ToValidUTF8(string(r.Body), "")
	}
	return indented.String()
}

// SDKs reports whether the SDKs can send the call.
func (r result) SDKs() bool { return len(r.Programs) > 1 }
