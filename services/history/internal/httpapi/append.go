package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/event"
)

// append records the events of a file if every line may be recorded, and otherwise says what is wrong with those that may not. A
// line that names the newest event its author had seen is a conflict (409) if there is a newer one.
func (a API) append(g *gin.Context) (web.Reply, error) {
	ctx := g.Request.Context()
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	now := a.Now()
	var file eventfile.File
	err = web.File(g, func(in io.Reader) (err error) {
		file, err = eventfile.Read(in, now, eventfile.MaxReported)
		return err
	})
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.unknown(ctx, file)
	if err != nil {
		return web.Reply{}, err
	}
	lines, report := judge(file, unknown)
	if len(report.Refused) > 0 {
		return web.Reply{JSON: report}, nil
	}
	if now, err = reach(ctx, lines, now); err != nil {
		return web.Reply{}, err
	}
	report.Appended, report.Duplicates, err = a.Store.Append(ctx, actor, now, lines)
	if unseen := new(event.UnseenError); errors.As(err, &unseen) {
		report.Newer, err = recorded(unseen.Events)
		return web.Reply{Status: http.StatusConflict, JSON: report}, err
	}
	report.Applied = err == nil
	return web.Reply{JSON: report}, err
}

// reach waits until the clock has reached the latest check, which may be up to eventfile.ClockTolerance ahead, and returns the time
// then: no response shows a check from the future, and the event is recorded as it was sent.
func reach(ctx context.Context, lines []eventfile.Line, now time.Time) (time.Time, error) {
	latest := now
	for _, line := range lines {
		if line.Event.CheckedAt.After(latest) {
			latest = line.Event.CheckedAt
		}
	}
	if latest.Equal(now) {
		return now, nil
	}
	select {
	case <-time.After(latest.Sub(now)):
		return latest, nil
	case <-ctx.Done():
		return now, ctx.Err()
	}
}

// recorded is the operators' form of the records.
func recorded(records []event.Record) ([]api.RecordedEvent, error) {
	events := make([]api.RecordedEvent, len(records))
	for i := range records {
		e, err := records[i].Event()
		if err != nil {
			return nil, err
		}
		events[i] = api.RecordedEvent{VerificationEvent: e, RecordedAt: time.UnixMicro(records[i].RecordedAt).UTC(), Actor: records[i].Actor}
	}
	return events, nil
}

// judge refuses, beside what is refused already, the events of unknown listings. Of all refused lines it names the first.
func judge(file eventfile.File, unknown map[string]bool) (lines []eventfile.Line, report api.AppendReport) {
	const stranger = "there is no such listing"
	refused := file.Refused
	for i, r := range refused {
		if unknown[r.ID] {
			refused[i].Problems.Add("slug", stranger)
		}
	}
	strangers := 0
	lines = make([]eventfile.Line, 0, len(file.Lines))
	for _, line := range file.Lines {
		if !unknown[line.Event.Slug] {
			lines = append(lines, line)
			continue
		}
		if strangers++; strangers <= eventfile.MaxReported {
			refused = append(refused, api.Refusal{Line: line.Number, ID: line.Event.Slug, Problems: api.Problems{"slug: " + stranger}})
		}
	}
	slices.SortFunc(refused, func(a, b api.Refusal) int { return cmp.Compare(a.Line, b.Line) })
	total := len(file.Refused) + file.Omitted + strangers
	refused = append([]api.Refusal{}, refused[:min(len(refused), eventfile.MaxReported)]...) // an empty list is no null
	return lines, api.AppendReport{Refused: refused, Omitted: total - len(refused)}
}

// unknown are the slugs that name no listing. A listing may be newer than the store's copy of the catalog, so none is called
// unknown before the catalog was asked; where it cannot be asked, nothing is recorded and nothing refused.
func (a API) unknown(ctx context.Context, file eventfile.File) (map[string]bool, error) {
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
