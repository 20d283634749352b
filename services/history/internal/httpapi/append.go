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

// append records the events of a file. If any line is invalid, it records nothing and reports the problems of each invalid line.
// It responds with 409 if a line names the newest event that its author had seen and a newer one exists.
func (a API) append(g *gin.Context) (web.Reply, error) {
	ctx := g.Request.Context()
	actor, err := web.Actor(g)
	if err != nil {
		return web.Reply{}, err
	}
	now := a.Now()
	var file eventfile.File
	err = web.File(g, func(in io.Reader) (err error) {
		file, err = eventfile.Read(in, now, api.MaxReported)
		return err
	})
	if err != nil {
		return web.Reply{}, err
	}
	unknown, err := a.unknown(ctx, file)
	if err != nil {
		return web.Reply{}, err
	}
	lines, report := checkListings(file, unknown)
	if len(report.Rejected) > 0 {
		return web.Reply{JSON: report}, nil
	}
	if now, err = awaitLatest(ctx, lines, now); err != nil {
		return web.Reply{}, err
	}
	report.Appended, report.Duplicates, err = a.Store.Append(ctx, actor, now, lines)
	if unseen := new(event.UnseenError); errors.As(err, &unseen) {
		report.Newer, err = forOperators(unseen.Events)
		return web.Reply{Status: http.StatusConflict, JSON: report}, err
	}
	report.Applied = err == nil
	return web.Reply{JSON: report}, err
}

// awaitLatest waits for the time of the latest check, which may be up to api.ClockTolerance in the future, and returns that
// time. The event is then recorded as sent, and no response shows a check from the future.
func awaitLatest(ctx context.Context, lines []eventfile.Line, now time.Time) (time.Time, error) {
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

// forOperators returns the records with the time of recording and the actor.
func forOperators(records []event.Record) ([]api.RecordedEvent, error) {
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

// checkListings rejects the events of unknown listings. It returns the valid lines and a report of the rejected ones: the first
// api.MaxReported in full, the others as a number.
func checkListings(file eventfile.File, unknown map[string]bool) (lines []eventfile.Line, report api.AppendReport) {
	const noListing = "there is no such listing"
	rejected := file.Rejected
	for i, r := range rejected {
		if unknown[r.ID] {
			rejected[i].Problems.Add("slug", noListing)
		}
	}
	unlisted := 0
	lines = make([]eventfile.Line, 0, len(file.Lines))
	for _, line := range file.Lines {
		if !unknown[line.Event.Slug] {
			lines = append(lines, line)
			continue
		}
		if unlisted++; unlisted <= api.MaxReported {
			rejected = append(rejected, api.RejectedLine{Line: line.Number, ID: line.Event.Slug, Problems: api.Problems{"slug: " + noListing}})
		}
	}
	slices.SortFunc(rejected, func(a, b api.RejectedLine) int { return cmp.Compare(a.Line, b.Line) })
	total := len(file.Rejected) + file.Omitted + unlisted
	rejected = append([]api.RejectedLine{}, rejected[:min(len(rejected), api.MaxReported)]...) // never nil: JSON needs [], not null
	return lines, api.AppendReport{Rejected: rejected, Omitted: total - len(rejected)}
}

// unknown returns the slugs in the file without a listing. The store's copy of the catalog may be stale, so it updates the copy
// before it reports a slug as unknown. It returns problem.Unavailable if the catalog is unavailable.
func (a API) unknown(ctx context.Context, file eventfile.File) (map[string]bool, error) {
	var slugs []string
	for _, line := range file.Lines {
		slugs = append(slugs, line.Event.Slug)
	}
	for _, r := range file.Rejected {
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
