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
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
)

// Store holds the application links, the state of their checks, the pages that listings cite, and
// the lease, which limits all replicas together to one run at a time. The lease uses the clocks of
// the callers, which must differ by less than leaseTTL.
type Store interface {
	// Links returns the links of all published listings.
	Links(ctx context.Context) ([]Link, error)
	// Claim claims the check of slug that was due at due. ok is false if it is already claimed or
	// if run does not hold the lease.
	Claim(ctx context.Context, run, slug string, due, now time.Time) (ok bool, err error)
	// Release undoes a claim of run, so that the link is due again.
	Release(ctx context.Context, run, slug string) error
	// Record appends the event of a claimed link with the cause of the outcome needs-review, if it
	// has one. It returns an error if run does not hold the claim.
	Record(ctx context.Context, run string, now time.Time, e api.VerificationEvent, cause *api.Cause) error
	// Pages returns the pages that are read daily, and those that are read until they respond and
	// have not. Application links of published listings are not among them: Links has these.
	Pages(ctx context.Context) ([]Page, error)
	// SavePage stores the result of reading a page.
	SavePage(ctx context.Context, r Reading) error
	// FindQuotes looks for the quotes of all listings that cite a page that was read since then,
	// marks the listings, and counts the findings.
	FindQuotes(ctx context.Context, since time.Time) (map[api.Finding]int, error)
	// PrunePages deletes texts, and pages, that were last read before then.
	PrunePages(ctx context.Context, before time.Time) error
	// Acquire takes the lease for run until the given time. ok is false if another run holds it at
	// now.
	Acquire(ctx context.Context, run string, now, until time.Time) (ok bool, err error)
	// Renew extends the lease. ok is false if run no longer holds it.
	Renew(ctx context.Context, run string, until time.Time) (ok bool, err error)
	// End releases the lease and stores the run's time and duration. complete is false if the run
	// stopped early.
	End(ctx context.Context, run string, now time.Time, duration time.Duration, complete bool) error
}

// Actor is the actor of the checker's events.
const Actor = "link-check"

const (
	maxAttempts = 3 // of an unreachable link
	// hostsPerRequest is the number of hosts processed in parallel for each concurrent request.
	// Most hosts wait for their gap.
	hostsPerRequest = 32
	drain           = 25 * time.Second // for requests in flight when a run is stopped
	// maxWait is the longest Retry-After that a run respects. A link with a longer one is not
	// retried.
	maxWait = 10 * time.Minute
)

var backoff = [maxAttempts - 1]time.Duration{time.Minute, 5 * time.Minute}

// Report is the result of a run.
type Report struct {
	Outcomes map[api.Outcome]int // recorded checks
	Reserved int                 // links with a reserved host name; never checked
	Deferred int                 // links and pages left to the next run because their host requires long delays
	// Unresolved counts links and pages left to the next run because no name at all could be
	// resolved: the network of the checker is down.
	Unresolved int
	Lost       int // checks of the last day claimed by a run that was killed before it recorded them
	Read       PagesRead
	Duration   time.Duration
}

// Checked returns the number of recorded checks.
func (r Report) Checked() (n int) {
	for _, count := range r.Outcomes {
		n += count
	}
	return n
}

// String returns the report as one line of text.
func (r Report) String() string {
	var outcomes []string
	for _, o := range api.Outcomes[api.LinkCheck] {
		if r.Outcomes[o] > 0 {
			outcomes = append(outcomes, fmt.Sprintf("%d %s", r.Outcomes[o], o))
		}
	}
	noun := "links"
	if r.Checked() == 1 {
		noun = "link"
	}
	text := fmt.Sprintf("checked %d %s in %s", r.Checked(), noun, r.Duration.Round(time.Second))
	if len(outcomes) > 0 {
		text += ": " + strings.Join(outcomes, ", ")
	}
	for _, more := range []struct {
		n    int
		what string
	}{
		{r.Reserved, "skipped (reserved host names)"},
		{r.Deferred, "left to the next run (their hosts require long delays)"},
		{r.Unresolved, "left to the next run (no host name could be resolved)"},
		{r.Lost, "lost when a run was killed (next check tomorrow)"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf("; %d %s", more.n, more.what)
		}
	}
	return text + r.Read.String()
}

// errClaim wraps every error of a claim. errClaimed means that another run has claimed the link.
var (
	errClaim   = errors.New("claiming link")
	errClaimed = fmt.Errorf("%w: claimed by another run", errClaim)
)

type run struct {
	*Checker
	id    string
	links Store
	ctx   context.Context // its end stops new checks
	hard  context.Context // its end also aborts checks in progress
	fail  func(error)     // ends both contexts

	mu     sync.Mutex
	report Report
}

// task is the check of one link in a run, or the reading of a page, which has no slug.
type task struct {
	Link
	due      time.Time
	claimed  bool
	attempts int
	after    time.Time // of the next attempt; zero for immediately
}

// Run checks every due link and records the outcome, and reads every due page; id must hold the
// lease. When ctx ends it starts no more checks and returns after those in progress are recorded.
// When hard ends it aborts those too. The report is valid even with an error.
func (c *Checker) Run(ctx, hard context.Context, id string, links Store) (Report, error) {
	started := c.now()
	all, err := links.Links(ctx)
	if err != nil {
		return Report{}, err
	}
	pages, err := links.Pages(ctx)
	if err != nil {
		return Report{}, err
	}
	hard, abort := context.WithCancelCause(hard)
	defer abort(nil)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{Checker: c, id: id, links: links, ctx: ctx, hard: hard, report: Report{Outcomes: map[api.Outcome]int{}}}
	r.fail = func(err error) { stop(err); abort(err) }
	defer context.AfterFunc(hard, func() { stop(context.Cause(hard)) })()

	var workers sync.WaitGroup
	slots := make(chan struct{}, hostsPerRequest*c.cfg.Concurrency)
	for _, queue := range r.queues(all, pages, started) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		workers.Go(func() {
			defer func() { <-slots }()
			r.checkHost(queue)
		})
	}
	workers.Wait()
	r.finishPages(started)
	r.report.Duration = c.now().Sub(started)
	if err := context.Cause(hard); err != nil { // takes precedence: the cause of ctx may be a query that hard aborted
		return r.report, err
	}
	return r.report, context.Cause(ctx)
}

// queues returns the due links and pages grouped by host, the longest overdue first.
func (r *run) queues(all []Link, pages []Page, now time.Time) [][]*task {
	hosts := map[string][]*task{}
	add := func(t *task) {
		name := ""
		if u, err := url.Parse(t.Address); err == nil {
			name = hostname(u)
		}
		hosts[name] = append(hosts[name], t)
	}
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
		add(&task{Link: l, due: due})
	}
	for _, p := range pages {
		if due, ok := p.due(now); ok && !Reserved(p.URL) {
			add(&task{Link: Link{Address: p.URL}, due: due})
		}
	}
	order := func(a, b *task) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.Slug, b.Slug), cmp.Compare(a.Address, b.Address))
	}
	var queues [][]*task
	for _, q := range hosts {
		slices.SortFunc(q, order)
		queues = append(queues, q)
	}
	slices.SortFunc(queues, func(a, b []*task) int { return order(a[0], b[0]) })
	return queues
}

// checkHost checks the links of one host one after another. A link to retry goes to the end of the
// queue.
func (r *run) checkHost(queue []*task) {
	for checked := 0; len(queue) > 0; checked++ {
		// the first of equal tasks
		next := slices.MinFunc(queue, func(a, b *task) int { return a.after.Compare(b.after) })
		queue = slices.DeleteFunc(queue, func(t *task) bool { return t == next })
		if !next.claimed && checked > 0 && r.slowHost(next) {
			r.count(func(p *Report) { p.Deferred++ })
			continue
		}
		if !sleep(r.ctx, next.after.Sub(r.now())) || !r.check(next) {
			r.release(append(queue, next))
			return
		}
		if !next.after.IsZero() {
			queue = append(queue, next)
		}
	}
}

func (r *run) slowHost(t *task) bool {
	u, err := url.Parse(t.Address)
	return err == nil && r.hosts.get(u).currentGap() > maxDelay
}

// check makes one attempt at a link. It records the outcome or schedules a retry. It returns false
// if the run must end.
func (r *run) check(t *task) bool {
	res, err := r.try(r.ctx, r.hard, t.Address, func() error { return r.claim(t) })
	t.attempts++
	switch {
	case errors.Is(err, errClaimed):
		return true
	case errors.Is(err, errClaim):
		r.fail(err)
		return false
	case err != nil: // after an aborted request the claim stays, because the site may have received it
		if !stopped(err) {
			t.claimed = false // release skips it
		}
		return false
	case res.retry && t.attempts < maxAttempts && res.wait <= maxWait:
		t.after = r.now().Add(max(backoff[t.attempts-1], res.wait))
		return true
	}
	t.after = time.Time{}
	if res.unresolved && !r.resolves.Load() {
		r.release([]*task{t})
		r.count(func(p *Report) { p.Unresolved++ })
		return true
	}
	if res.retry && t.attempts > 1 {
		res.note += fmt.Sprintf(" %d attempts.", t.attempts)
	}
	if err = r.record(t, res); err != nil {
		r.fail(err)
		return false
	}
	return true
}

func (r *run) record(t *task, res result) error {
	now := r.now()
	at := now.UTC().Truncate(time.Microsecond)
	if t.Slug != "" {
		res = res.judgeText()
		e := api.VerificationEvent{
			Slug: t.Slug, CheckedAt: at, CheckType: api.LinkCheck, Outcome: res.outcome,
			SourceURLs: []string{t.Address}, Note: sanitizeNote(res.note),
		}
		if err := r.persist(func() error { return r.links.Record(r.hard, r.id, now, e, res.cause) }); err != nil {
			return err
		}
		r.count(func(p *Report) { p.Outcomes[res.outcome]++ })
	}
	page := reading(t.Address, at, res)
	if err := r.persist(func() error { return r.links.SavePage(r.hard, page) }); err != nil {
		return err
	}
	r.count(func(p *Report) { p.Read.add(page) })
	return nil
}

func (r *run) claim(t *task) error {
	if t.claimed || t.Slug == "" {
		return nil
	}
	if r.ctx.Err() != nil {
		return errStopped
	}
	var ok bool
	err := r.persist(func() (err error) {
		ok, err = r.links.Claim(r.hard, r.id, t.Slug, t.due, r.now())
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w %s: %w", errClaim, t.Slug, err)
	case !ok:
		return errClaimed
	}
	t.claimed = true
	return nil
}

// persist calls do until it succeeds, for about half a minute: a result that cannot be recorded is
// lost for the day, and a failed claim ends the run.
func (r *run) persist(do func() error) (err error) {
	for pause := time.Second; pause <= 16*time.Second; pause *= 2 {
		if err = do(); err == nil || !sleep(r.hard, pause) {
			break
		}
	}
	return err
}

// release makes claimed links due again whose retry will not happen in this run.
func (r *run) release(queue []*task) {
	for _, t := range queue {
		if t.claimed {
			_ = r.links.Release(r.hard, r.id, t.Slug) // if it fails, the link is due again tomorrow
		}
	}
}

func (r *run) count(f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
}

// sanitizeNote replaces everything that is not printable and limits the length. Parts of a note
// come from other people's servers and could contain bytes that a database rejects or a terminal
// interprets.
func sanitizeNote(note string) string {
	runes := []rune(note)
	for i, r := range runes {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes[:min(len(runes), api.MaxText)])
}
