package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

// listing returns the detail of one listing for curators. Its entity tag is the precondition of an
// edit.
func (a API) listing(r request) (web.Reply, error) {
	detail, err := a.Listings.Detail(r.context(), r.id())
	return web.Reply{JSON: detail, Header: versionHeader(detail)}, err
}

func versionHeader(detail api.ListingDetail) http.Header {
	return http.Header{"Etag": {`"` + detail.Version + `"`}}
}

// edit replaces a listing by the line in the body, unless the listing has another version than
// If-Match: then it responds with 412 and the current listing. It never changes the visibility. A
// dry run changes nothing and returns what would change.
func (a API) edit(r request) (web.Reply, error) {
	dry, err := r.values.Flag("dryRun")
	if err != nil {
		return web.Reply{}, err
	}
	version, quoted := strings.CutPrefix(strings.TrimSuffix(r.GetHeader("If-Match"), `"`), `"`)
	if !quoted {
		return web.Reply{}, problem.New(problem.InvalidParameter,
			"Header If-Match must have the entity tag of the listing that was edited.")
	}
	line, problems, err := a.editedLine(r)
	if err != nil {
		return web.Reply{}, err
	}
	report := api.EditReport{Fields: []string{}, Material: []string{}, Problems: problems}
	if len(problems) == 0 {
		if report, err = a.Listings.Edit(r.context(), r.actor, line, version, dry); err != nil {
			return web.Reply{}, err
		}
	}
	switch {
	case report.Current == nil:
		return web.Reply{JSON: report}, nil
	case !report.Applied && len(report.Problems) == 0 && report.Current.Version != version:
		return web.Reply{Status: http.StatusPreconditionFailed, JSON: report, Header: versionHeader(*report.Current)},
			nil
	}
	return web.Reply{JSON: report, Header: versionHeader(*report.Current)}, nil
}

func (a API) editedLine(r request) (line listingfile.Line, p api.Problems, err error) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(r.Writer, r.Request.Body, maxRequest)); err != nil {
		return line, nil, problem.New(problem.InvalidParameter,
			"The listing could not be read to its end.").Because(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body.Bytes()); err != nil {
		return line, nil, problem.New(problem.InvalidParameter, "The body must be a listing as JSON.").Because(err)
	}
	file, err := listingfile.Read(&compact, a.Now(), 1)
	switch {
	case err != nil:
		return line, nil, err
	case len(file.Rejected) > 0:
		return line, file.Rejected[0].Problems, nil
	case len(file.Lines) != 1:
		return line, nil, problem.New(problem.InvalidParameter, "The body must be a listing as JSON.")
	}
	line = file.Lines[0]
	if line.ID != r.id() {
		p.Add("id", "must not change")
	}
	return line, p, nil
}
