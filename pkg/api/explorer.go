package api

import "net/http"

// ExplorerPath is the page on which a signed-in person makes calls without a key in the browser.
// Each operation has a form below it.
const ExplorerPath = "/account/explorer"

// ExplorerHeader marks the messages about a call of the explorer. In authquota's response to a
// submitted form it is the call that the gateway has to make, an ExplorerCall as JSON. In the
// gateway's next request it means that the body is the ExplorerResult. It is trusted like
// CallerHeader.
const ExplorerHeader = "X-Opportunity-Explorer"

// ExplorerCall is a call for a signed-in person.
type ExplorerCall struct {
	Principal Principal   `json:"principal"` // of the person's key
	Target    string      `json:"target"`    // path and query
	Header    http.Header `json:"header"`
}

// ExplorerResult is the response to a call of the explorer.
type ExplorerResult struct {
	Form    []byte      `json:"form"` // the submitted form
	Status  int         `json:"status"`
	Header  http.Header `json:"header"`
	Body    []byte      `json:"body"` // at most MaxExplorerBody
	Size    int         `json:"size"` // of the whole body, in bytes
	Charged bool        `json:"charged"`
}

// Value returns the value of a header, or an empty string. Name has the case in which the gateway
// sends it.
func (r ExplorerResult) Value(name string) string {
	if v := r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
