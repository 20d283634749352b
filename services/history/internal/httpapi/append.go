package httpapi

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

// append records the events of a file if every line may be recorded, and otherwise says what is wrong with those that may not.
func (a API) append(g *gin.Context) (web.Reply, error) {
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	now := a.Now()
	var file event.File
	err = web.File(g, func(in io.Reader) (err error) {
		file, err = event.Read(in, now)
		return err
	})
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.unknown(g.Request.Context(), file)
	if err != nil {
		return web.Reply{}, err
	}
	events, report := judge(file, unknown)
	if report.Applied = len(report.Refused) == 0; report.Applied {
		report.Appended, report.Duplicates, err = a.Store.Append(g.Request.Context(), actor, now, events)
	}
	return web.Reply{JSON: report}, err
}

// judge refuses, beside what is refused already, the events of unknown listings. Of all refused lines it names the first.
func judge(file event.File, unknown map[string]bool) (events []api.VerificationEvent, report api.AppendReport) {
	const stranger = "there is no such listing"
	refused := file.Refused
	for i, r := range refused {
		if unknown[r.ID] {
			refused[i].Problems.Add("slug", stranger)
		}
	}
	strangers := 0
	events = make([]api.VerificationEvent, 0, len(file.Lines))
	for _, line := range file.Lines {
		if !unknown[line.Event.Slug] {
			events = append(events, line.Event)
			continue
		}
		if strangers++; strangers <= event.MaxReported {
			refused = append(refused, api.Refusal{Line: line.Number, ID: line.Event.Slug, Problems: api.Problems{"slug: " + stranger}})
		}
	}
	slices.SortFunc(refused, func(a, b api.Refusal) int { return cmp.Compare(a.Line, b.Line) })
	total := len(file.Refused) + file.Omitted + strangers
	refused = append([]api.Refusal{}, refused[:min(len(refused), event.MaxReported)]...) // an empty list is no null
	return events, api.AppendReport{Refused: refused, Omitted: total - len(refused)}
}

// unknown are the slugs that name no listing. A listing may be newer than the store's copy of the catalog, so none is called
// unknown before the catalog was asked; where it cannot be asked, nothing is recorded and nothing refused.
func (a API) unknown(ctx context.Context, file event.File) (map[string]bool, error) {
	var slugs []string
	for _, line := range file.Lines {
		slugs = append(slugs, line.Event.Slug)
	}
	for _, r := range file.Refused {
		if api.ValidSlug(r.ID) {
			slugs = append(slugs, r.ID)
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
