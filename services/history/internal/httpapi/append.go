package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

// maxFile bounds an events file, which is judged as a whole and therefore held in memory.
const maxFile = 64 << 20

// append records the events of a file if every line may be recorded, and otherwise says what is wrong with each that may not.
func (a API) append(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	now := a.Now()
	lines, err := event.Read(http.MaxBytesReader(g.Writer, g.Request.Body, maxFile), now)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return web.Reply{}, problem.New(problem.InvalidParameter, "The file must have at most %d bytes; append it in parts.", tooLarge.Limit)
	}
	if err != nil {
		return web.Reply{}, problem.New(problem.InvalidParameter, "The file could not be read to its end.").Because(err)
	}
	unknown, err := a.unknown(g.Request.Context(), lines)
	if err != nil {
		return web.Reply{}, err
	}
	report := api.AppendReport{Refused: []api.Refusal{}}
	events := make([]api.VerificationEvent, 0, len(lines))
	for _, line := range lines {
		if unknown[line.Event.Slug] {
			line.Problems.Add("slug", "there is no such listing")
		}
		if len(line.Problems) > 0 {
			report.Refused = append(report.Refused, api.Refusal{Line: line.Number, ID: line.Event.Slug, Problems: line.Problems})
		}
		events = append(events, line.Event)
	}
	if len(report.Refused) == 0 {
		report.Applied = true
		report.Appended, report.Duplicates, err = a.Store.Append(g.Request.Context(), actor, now, events)
	}
	return web.Reply{JSON: report}, err
}

// unknown are the slugs that name no listing. A listing may be newer than the store's copy of the catalog, so none is called
// unknown before the catalog was asked; where it cannot be asked, nothing is recorded and nothing refused.
func (a API) unknown(ctx context.Context, lines []event.Line) (map[string]bool, error) {
	var slugs []string
	for _, line := range lines {
		if api.ValidSlug(line.Event.Slug) {
			slugs = append(slugs, line.Event.Slug)
		}
	}
	slices.Sort(slugs)
	slugs = slices.Compact(slugs)
	unknown, err := a.Store.UnknownListings(ctx, slugs)
	if err != nil || len(unknown) == 0 {
		return nil, err
	}
	if err := a.Catalog.CatchUp(ctx); err != nil {
		return nil, problem.Unavailable(err)
	}
	return a.Store.UnknownListings(ctx, slugs)
}
