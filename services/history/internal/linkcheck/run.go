package linkcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"opportunity.internal/pkg/api"
)

// Links are the links of published listings as they are kept.
type Links interface {
	// Links are those of all published listings.
	Links(ctx context.Context) ([]Link, error)
	// Claim takes the link of slug for the instant due, for good. ours is false where that was done before, or where run does
	// not hold the lease.
	Claim(ctx context.Context, run, slug string, due, now time.Time) (ours bool, err error)
	// Release undoes a claim that came to nothing, so that the link is due again.
	Release(ctx context.Context, run, slug string) error
	// Record appends the event of a claimed link; it fails where run has no claim on it.
	Record(ctx context.Context, run string, now time.Time, e api.VerificationEvent) error
}

// Actor is the name under which events of the checker are appended.
const Actor = "link-check"

const (
	// tries is how often an unreachable link is asked; backOff is how long after a failed try the next one comes.
	tries = 3
	// hostsAtOnce bounds, as a multiple of the requests at once, how many hosts are worked on: most of them wait for their gap.
	hostsAtOnce = 32
	// drain is how long a run that is told to stop gives the requests that are under way.
	drain = 25 * time.Second
)

// maxWait is how long a host may ask us to wait before the next try; beyond that there is none.
const maxWait = 10 * time.Minute

var backOff = [tries - 1]time.Duration{time.Minute, 5 * time.Minute}

// Report is what a run did.
type Report struct {
	Outcomes map[api.Outcome]int // checks recorded
	Reserved int                 // links on names that can never be on the internet; not asked
	Deferred int                 // left to the next run, because their host wants long delays
	Lost     int                 // claimed for the present day by runs that died before they recorded anything
	Took     time.Duration
}

// Checked is how many links were asked and recorded.
func (r Report) Checked() (n int) {
	for _, count := range r.Outcomes {
		n += count
	}
	return n
}

// String is the report for people.
func (r Report) String() string {
	var found []string
	for _, o := range api.Outcomes[api.LinkCheck] {
		if r.Outcomes[o] > 0 {
			found = append(found, fmt.Sprintf("%d %s", r.Outcomes[o], o))
		}
	}
	noun := "links"
	if r.Checked() == 1 {
		noun = "link"
	}
	text := fmt.Sprintf("checked %d %s in %s", r.Checked(), noun, r.Took.Round(time.Second))
	if len(found) > 0 {
		text += ": " + strings.Join(found, ", ")
	}
	for _, more := range []struct {
		n    int
		what string
	}{
		{r.Reserved, "on reserved names, never asked"},
		{r.Deferred, "left to the next run, because their hosts ask for long delays"},
		{r.Lost, "lost when a run was killed, to be asked again tomorrow"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf("; %d %s", more.n, more.what)
		}
	}
	return text
}

// errClaim wraps what kept a link from being claimed; errTaken is that another run has it.
var (
	errClaim = errors.New("claim")
	errTaken = fmt.Errorf("%w: taken by another run", errClaim)
)

// run is one run of a checker over the links that are due.
type run struct {
	*Checker
	id    string
	links Links
	ctx   context.Context // ends when no more links are to be asked
	hard  context.Context // ends when nothing is waited for any more
	fail  func(error)     // ends both

	mu     sync.Mutex
	report Report
	total  int // links that are due
}

// task is a link on its way through a run.
type task struct {
	Link
	due     time.Time
	claimed bool
	tried   int
	after   time.Time // when the next try may come
}

// Run asks every link that is due and records what came of it, under the lease that id holds. When ctx ends it takes no more
// links, and comes back when those under way are recorded; hard ends those too. The report is of what was done in any case.
func (c *Checker) Run(ctx, hard context.Context, id string, links Links) (Report, error) {
	started := c.now()
	all, err := links.Links(ctx)
	if err != nil {
		return Report{}, err
	}
	hard, cut := context.WithCancelCause(hard)
	defer cut(nil)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{Checker: c, id: id, links: links, ctx: ctx, hard: hard, report: Report{Outcomes: map[api.Outcome]int{}}}
	r.fail = func(err error) { stop(err); cut(err) }
	defer context.AfterFunc(hard, func() { stop(context.Cause(hard)) })()

	var busy sync.WaitGroup
	places := make(chan struct{}, hostsAtOnce*c.cfg.Concurrency)
	for _, queue := range r.queues(all, started) {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		busy.Go(func() {
			defer func() { <-places }()
			r.host(queue)
		})
	}
	busy.Wait()
	r.report.Took = c.now().Sub(started)
	if err := context.Cause(hard); err != nil { // before that of ctx, which may be a query that hard has cut off
		return r.report, err
	}
	return r.report, context.Cause(ctx)
}

// queues are the links that are due, by host, those first that have been due for longest.
func (r *run) queues(all []Link, now time.Time) [][]*task {
	hosts := map[string][]*task{}
	for _, l := range all {
		due, ok := l.due(now)
		switch {
		case Reserved(l.Address):
			r.report.Reserved++
			continue
		case !ok:
			if !l.Recorded && l.DueAt.Equal(due) {
				r.report.Lost++
			}
			continue
		}
		name := ""
		if u, err := url.Parse(l.Address); err == nil {
			name = hostname(u)
		}
		hosts[name] = append(hosts[name], &task{Link: l, due: due})
		r.total++
	}
	var queues [][]*task
	for _, q := range hosts {
		slices.SortFunc(q, func(a, b *task) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.Slug, b.Slug)) })
		queues = append(queues, q)
	}
	slices.SortFunc(queues, func(a, b []*task) int { return cmp.Or(a[0].due.Compare(b[0].due), cmp.Compare(a[0].Slug, b[0].Slug)) })
	return queues
}

// host works through the links of one host, one after the other. A link that is to be tried again goes behind the others.
func (r *run) host(queue []*task) {
	for asked := 0; len(queue) > 0; asked++ {
		next := slices.MinFunc(queue, func(a, b *task) int { return a.after.Compare(b.after) }) // the first of equal ones
		queue = slices.DeleteFunc(queue, func(t *task) bool { return t == next })
		if !next.claimed && asked > 0 && r.long(next) {
			r.count(func(p *Report) { p.Deferred++ })
			continue
		}
		if !sleep(r.ctx, next.after.Sub(r.now())) || !r.check(next) {
			r.giveUp(append(queue, next))
			return
		}
		if !next.after.IsZero() {
			queue = append(queue, next)
		}
	}
}

// long reports whether the host of a link wants more than maxDelay between requests, or has had enough of them for now.
func (r *run) long(t *task) bool {
	u, err := url.Parse(t.Address)
	return err == nil && r.hosts.of(u).wants() > maxDelay
}

// check tries a link once and records what came of it, or sets when to try again. It reports false where the run is over.
func (r *run) check(t *task) bool {
	found, err := r.try(r.ctx, r.hard, t.Address, func() error { return r.claim(t) })
	t.tried++
	switch {
	case errors.Is(err, errTaken):
		return true
	case errors.Is(err, errClaim):
		r.fail(err)
		return false
	case err != nil: // stopped before the link was asked, or cut off while it was: then the claim stays
		if !stopped(err) {
			t.claimed = false
		}
		return false
	case found.again && t.tried < tries && found.wait <= maxWait:
		t.after = r.now().Add(max(backOff[t.tried-1], found.wait))
		return true
	}
	t.after = time.Time{}
	if found.again && t.tried > 1 {
		found.note += fmt.Sprintf(" Tried %d times.", t.tried)
	}
	now := r.now()
	err = r.record(api.VerificationEvent{
		Slug: t.Slug, CheckedAt: now.UTC().Truncate(time.Microsecond), CheckType: api.LinkCheck, Outcome: found.outcome,
		SourceURLs: []string{t.Address}, Note: clipped(found.note),
	}, now)
	if err != nil {
		r.fail(err)
		return false
	}
	r.count(func(p *Report) { p.Outcomes[found.outcome]++ })
	return true
}

func (r *run) claim(t *task) error {
	if t.claimed {
		return nil
	}
	if r.ctx.Err() != nil {
		return errStopped
	}
	ours, err := r.links.Claim(r.hard, r.id, t.Slug, t.due, r.now())
	switch {
	case err != nil:
		return fmt.Errorf("%w %s: %w", errClaim, t.Slug, err)
	case !ours:
		return errTaken
	}
	t.claimed = true
	return nil
}

// record tries for a while: what was found is lost for the day if the database is away for longer.
func (r *run) record(e api.VerificationEvent, now time.Time) (err error) {
	for pause := time.Second; pause <= 16*time.Second; pause *= 2 {
		if err = r.links.Record(r.hard, r.id, now, e); err == nil || !sleep(r.hard, pause) {
			break
		}
	}
	return err
}

// giveUp makes the links due again whose last try failed and whose next one will not come in this run.
func (r *run) giveUp(queue []*task) {
	for _, t := range queue {
		if t.claimed {
			_ = r.links.Release(r.hard, r.id, t.Slug) // or the claim stays, and the link waits for tomorrow
		}
	}
}

func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
	if r.Progress != nil {
		r.Progress(int64(r.report.Checked()+r.report.Deferred), int64(r.total))
	}
}

// clipped brings a note into what an event may carry. Some of it was written by strangers: no byte that a store would refuse, or
// a terminal obey, gets through.
func clipped(note string) string {
	note = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, note)
	return note[:min(len(note), api.MaxText)]
}
