package httpapi

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/eventfile"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
	"opportunity.internal/services/history/internal/store"
)

// append records the events of a file. If any line is invalid, it records nothing and reports the
// problems of each invalid line. It responds with 409 if a line names the newest event that its
// author had seen and a newer one exists.
func (a API) append(c call) (any, error) {
	actor, err := web.Actor(c.Context)
	if err != nil {
		return nil, err
	}
	u := upload{api: a, call: c, now: a.Now(), lines: map[string][]int{},
		report: api.AppendReport{Rejected: []api.RejectedLine{}}}
	u.caughtUp = a.CatchUp(c.ctx) // not during the transaction, which would block the copy
	err = web.File(c.Context, 0, func(in io.Reader) (err error) {
		u.in = bufio.NewReaderSize(in, received)
		if _, err := u.in.Peek(received); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		web.Extend(c.Context, api.FileTimeout)
		u.report.Appended, u.report.Duplicates, err = a.Store.Append(c.ctx, actor, u.now, u.read)
		return err
	})
	if errors.Is(err, errRejected) {
		return u.report, nil
	}
	if unseen := new(store.UnseenError); errors.As(err, &unseen) {
		u.report.Newer, err = forOperators(unseen.Events)
		return web.Reply{Status: http.StatusConflict, JSON: u.report}, err
	}
	u.report.Applied = err == nil
	return u.report, err
}

// received is the size in bytes up to which a file is received before an append begins. The
// transaction waits for the sender of the rest of a larger file.
const received = 16 << 20

type upload struct {
	call
	api      API
	in       *bufio.Reader
	now      time.Time
	caughtUp error            // nil if the copy of the listings was up to date at now
	lines    map[string][]int // numbers of the valid lines, by slug
	latest   time.Time        // latest check
	report   api.AppendReport
}

var errRejected = errors.New("the file has invalid lines")

// read passes the valid lines to add. It returns errRejected at the end if there are other lines,
// which are then in the report.
func (u *upload) read(add func(eventfile.Line) error) error {
	wrong, err := eventfile.Scan(u.in, u.now, api.MaxReported, func(l eventfile.Line) error {
		u.lines[l.Event.Slug] = append(u.lines[l.Event.Slug], l.Number)
		if l.Event.CheckedAt.After(u.latest) {
			u.latest = l.Event.CheckedAt
		}
		return add(l)
	})
	if err != nil {
		return err
	}
	unknown, err := u.api.Store.UnknownListings(u.ctx, u.slugs(wrong))
	if err != nil {
		return err
	}
	if len(unknown) > 0 && u.caughtUp != nil {
		return problem.Unavailable(u.caughtUp)
	}
	if u.report.Rejected, u.report.Omitted = u.rejections(wrong, unknown); len(u.report.Rejected) > 0 {
		return errRejected
	}
	_, err = awaitLatest(u.ctx, u.latest, u.now)
	return err
}

func (u *upload) slugs(wrong jsonlines.Rejections) []string {
	slugs := slices.Collect(maps.Keys(u.lines))
	for _, r := range wrong.Rejected {
		if api.ValidSlug(r.ID) {
			slugs = append(slugs, r.ID)
		}
	}
	slices.Sort(slugs)
	return slices.Compact(slugs)
}

// rejections returns the invalid lines and those of unknown listings: the first api.MaxReported in
// full, the others as a number.
func (u *upload) rejections(wrong jsonlines.Rejections, unknown map[string]bool) (rejected []api.RejectedLine,
	omitted int) {
	rejected = wrong.Rejected
	for i, r := range rejected {
		if unknown[r.ID] {
			rejected[i].Problems = append(rejected[i].Problems, api.NoListing("slug"))
		}
	}
	for slug := range unknown {
		for _, number := range u.lines[slug] {
			rejected = append(rejected, api.RejectedLine{Line: number, ID: slug,
				Problems: api.Problems{api.NoListing("slug")}})
		}
	}
	slices.SortFunc(rejected, func(a, b api.RejectedLine) int { return cmp.Compare(a.Line, b.Line) })
	// never nil: JSON needs [], not null
	first := append([]api.RejectedLine{}, rejected[:min(len(rejected), api.MaxReported)]...)
	return first, wrong.Omitted + len(rejected) - len(first)
}
